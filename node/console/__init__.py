"""console: the web console of a node: its pages, scripts and sheet, which the REST API serves at `/`.

The map:

page_files  the files of `static`, with their types and their tags
"""
