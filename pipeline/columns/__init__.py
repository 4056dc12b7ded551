"""columns: whole fetches of record batches into Arrow columns, and columns into batches; no Python a row.

Pure: bytes and arrays in, arrays and bytes out. The map, bottom-up:

"""
