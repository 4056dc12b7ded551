"""The parts of the documentation's site that `mkdocs build` adds to the pages under docs.

site_files        lists the files of the repository that are pages, and rewrites the links between them
settings_page     the reference of settings, from the tables of settings
design_numbers    turns the numbers of design decisions into anchors and links
commands_page     the reference of commands, from the commands
rest_page         the reference of the REST API, from its OpenAPI document
metrics_page      the reference of metrics, from a running node
benchmarks_page   the figures of `scripts/bench`, from its JSON
scale_page        the page about scaling, from the JSON of `scripts/bench scale`
ratio_chart       the chart of ratios of Ottla to Apache Kafka, as SVG
scale_chart       the chart of the cost of metadata by the number of partitions, as SVG
balance_chart     the chart of a cluster that grows, as SVG
console_picture   takes the picture of the console with a browser
hooks             the functions that mkdocs calls
"""
