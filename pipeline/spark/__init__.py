"""spark: the doors to Spark: the data source that it calls, in processes of its choice (door).

The map, bottom-up:

cached_script       writes small programs into the user's cache, which start others
java                finds the Java that Spark runs on: the system's or a wheel's
worker_python       makes the Python that runs local workers, with Spark's modules compiled
scan_sources        gives each scan a source object, so that filters can be pushed (door)
active_session      sets the active session of each thread
session             starts a Spark session with Java, the right Python and our modules in its workers
worker_process      settles a Python worker: memory, garbage and acknowledgements
range_partition     carries ranges of offsets from a plan to a task
pushed_filters      reads filters that Spark pushes into a scan as conditions on records
batch_reader        reads batches: a plan and its rows
fresh_table         reads topics as a table that is read again for each micro-batch
stream_reader       reads streams: offsets, plans and rows of micro-batches
table_options       carries options of tables in Spark's catalog
sink_columns        checks the columns of a sink before the first task
task_message        carries the report of a task to the driver
sink_task           writes the rows of one task
sink_writer         the common part of the sinks of batches and of streams
stream_writer       the sink of a stream
batch_writer        the sink of a batch, also inside foreachBatch
data_source         OttlaDataSource: a reader or a writer for batches and for streams
progress_listener   receives the progress of queries in one JSON
query_metrics       writes metrics of queries in the text format of Prometheus
metrics_server      serves that text over HTTP, beside a session
"""
