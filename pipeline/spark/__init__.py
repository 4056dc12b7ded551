"""spark: the doors to Spark: the data source that it calls, in which process it pleases (door).

The map, bottom-up:

cached_script       small programs in the user's cache, which hand over to others
java                where the Java is that Spark runs on: the system's or a wheel's
worker_python       the Python that runs local workers, with Spark's modules compiled
scan_sources        a source object for each scan, so that filters can be pushed (door)
active_session      the session that is active in each thread
session             a Spark session with Java, the right Python and our modules in its workers
worker_process      what is done once in a Python worker
range_partition     a range of offsets on its way from a plan to a task
pushed_filters      filters that Spark pushes into a scan, as conditions on records
batch_reader        batches: a plan and its rows
fresh_table         topics as a table that each micro-batch reads anew
stream_reader       streams: offsets, plans and rows of micro-batches
table_options       options of tables in Spark's catalog
sink_columns        the columns of a sink, judged before the first task
task_message        what a task of a sink tells the driver
sink_task           one task's rows on their way
sink_writer         what the sinks of batches and of streams share
stream_writer       the sink of a stream
batch_writer        the sink of a batch, also inside foreachBatch
data_source         OttlaDataSource: a reader or a writer for batches and for streams
progress_listener   a listener that is told of queries in one JSON
query_metrics       what queries do, as text for a Prometheus
metrics_server      that text over HTTP, beside a session
"""
