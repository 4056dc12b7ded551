"""The site of the documentation: what `mkdocs build` adds to the pages under docs.

site_files        which files of the repository are pages, and the links between them
settings_page     the reference of settings, from the tables of settings
commands_page     the reference of commands, from the commands
metrics_page      the reference of metrics, from a node that runs
benchmarks_page   the figures of `scripts/bench`, from its JSON
scale_page        how metadata scale, from the JSON of `scripts/bench scale`
ratio_chart       the ratios among them as SVG
scale_chart       what metadata cost by the number of partitions, as SVG
balance_chart     what nodes have while a cluster grows, as SVG
console_picture   the picture of the console, by a browser from a cluster
hooks             what mkdocs calls
"""
