"""pipeline: the data pipeline on Spark: topics as tables and streams, and the jobs that run beside a cluster.

It speaks Kafka's protocol and nothing else of Ottla, so that it works against Apache Kafka as well. Of `node`
it has the wire messages and the client's side of TLS and logins, of `logstore` the words and the record batch
(`tests/tidy` holds both lists).

The map, bottom-up; a module imports only from lines above its own, and so does a folder:

spark_needed        how to install Spark, where it is missing
words               errors of the user's making: an option that cannot be honoured
option_values       values of options, each checked
row_texts           columns of rows as texts, JSON or a key, that lose nothing
columns             record batches from and to Arrow columns
client              a Kafka client that blocks and pipelines: metadata, fetches, produces, transactions
source              what a source reads: options, offsets, admission, splits, losses, lag
sink                rows of Spark's tasks into topics, at least once or exactly once
spark               the doors to Spark: its data source, Java and a session
query               how a streaming query runs: name, checkpoint, trigger, output mode
lake                directories of Parquet files, by whole batches: a sink, and loads of topics
connect             files and tables as sources, web hooks as sinks: what Kafka Connect is for
mirror              topics of one cluster in another, as MirrorMaker does
streams             what stream processors do: windows, joins, sessions, deduplication, tables, state
jobs                job files: read, judged, run; how their jobs fare
"""
