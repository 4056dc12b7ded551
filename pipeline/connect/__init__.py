"""connect: streams from files and tables of databases, and to web hooks: what Kafka Connect is for.

Files go through Spark's own readers. What becomes a lake is in `ottla.pipeline.lake`. The map, bottom-up:

record_mapping      columns of rows into keys and values
file_source         lines, CSV and JSON: the new files of a directory
table_options       which table, which columns tell what is new
table_columns       columns of a database's types as columns of Spark's
table_position      how far a table was read, as the checkpoint has it
table_queries       the questions asked of a table, values apart from text
table_database      SQLite and PostgreSQL behind one face (door)
table_reader        what Spark asks of a source that is a table (door)
table_source        a table as a stream
http_options        where records are sent to, and what becomes of those that are refused
http_requests       records into requests, answers into what to do next
http_client         requests with retries (door)
http_sink           a stream to a web hook, in the order of each partition
"""
