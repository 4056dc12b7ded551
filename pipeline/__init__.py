"""pipeline: the data pipeline on Spark: topics as tables and streams, and the jobs that run beside a cluster.

It speaks Kafka's protocol and knows nothing else of Ottla, so it works against Apache Kafka as well. From
`node` it uses the wire messages and the client's side of TLS and logins, from `logstore` the errors, the
names and the record batch (`tests/tidy` holds both lists).

The map, bottom-up; a module imports only from lines above its own, and so does a folder:

spark_needed        how to install Spark where it is missing
words               errors that a user can mend: an option that cannot be honoured
option_values       the options of a connector, each value checked
row_texts           columns of rows as text, JSON or a key, without loss
columns             record batches from and to Arrow columns
client              a blocking Kafka client that pipelines: metadata, fetches, produces, transactions
source              the parts of a source: options, offsets, admission, splits, data loss, lag
sink                the sink: rows of Spark's tasks into topics, at least once or exactly once
spark               the doors to Spark: its data source, Java and a session
query               settings of a streaming query: name, checkpoint, trigger, output mode
lake                directories of Parquet files, by whole batches: a sink, and loads of topics
connect             files and tables as sources, web hooks as sinks: the place of Kafka Connect
mirror              topics of one cluster copied to another, as MirrorMaker does
streams             functions on streams: windows, joins, sessions, deduplication, tables, state
jobs                job files: read, checked, run; the status of their jobs
"""
