"""connect: streams from files and tables of databases, and to web hooks, in the place of Kafka Connect.

Files go through Spark's own readers. Lakes are in `ottla.pipeline.lake`. The map, bottom-up:

record_mapping      maps columns of rows to keys and values
file_source         reads lines, CSV and JSON: the new files of a directory
table_options       reads the options of a table, and of the columns that show which rows are new
table_columns       maps columns of a database's types to columns of Spark's
table_position      the position in a table that a checkpoint keeps
table_queries       writes the statements about a table, with values apart from text
table_database      reads SQLite and PostgreSQL through one interface (door)
table_reader        the source of a table as Spark calls it (door)
table_source        reads a table as a stream
http_options        reads the options of a web hook, with those for refused records
http_requests       builds requests from records, and judges answers
http_client         sends requests with retries (door)
http_sink           writes a stream to a web hook, in the order of each partition
"""
