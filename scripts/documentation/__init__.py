"""The parts of the documentation's site that `mkdocs build` adds to the pages under docs.

site_files        lists the files of the repository that are pages, and rewrites the links between them
settings_page     the reference of settings, from the tables of settings
commands_page     the reference of commands, from the commands
metrics_page      the reference of metrics, from a running node
benchmarks_page   the figures of `scripts/bench`, from its JSON
scale_page        the page about scaling, from the JSON of `scripts/bench scale`
ratio_chart       the chart of ratios of Ottla to Apache Kafka, as SVG
scale_chart       the chart of the cost of metadata by the number of partitions, as SVG
balance_chart     the chart of a cluster that grows, as SVG
console_picture   takes the picture of the console with a browser
hooks             the functions that mkdocs calls
"""
