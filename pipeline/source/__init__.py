"""source: what `format("ottla")` reads, with the options of Spark's Kafka connector; nothing of Spark.

Options and offsets are judged without a cluster; what asks one is given it. The map, bottom-up:

option_names        the connector's options, how they are written, which are refused and why
source_offsets      offsets as checkpoints have them: the connector's JSON, and the ids of topics
java_regex          patterns in Java's syntax, for `re`
integer_ranges      sets of offsets, partitions and times
record_filter       which records a batch wants: what need not be read for them
where_option        such a filter in the syntax of SQL
range_limits        where a read begins and ends, as options say it
source_options      the options, judged whole
source_schema       the columns, and those that a user's schema names
data_loss           what is gone that was to be read, and what is done about it
admission           how much of what is there a micro-batch takes
splits              ranges of offsets for tasks
progress            how far a query is behind, in records
lag_time            how far it is behind, in time
subscription        which partitions there are (asks)
log_ends            ends of logs, and the offsets that options mean (asks)
batch_plan          the ranges of a batch (asks)
stream_plan         the ranges of a micro-batch (asks)
range_rows          the rows of a range, and what is done when they are gone (asks)
"""
