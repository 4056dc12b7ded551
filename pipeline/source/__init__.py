"""source: the source of `format("ottla")` without Spark, with the options of Spark's Kafka connector.

Options and offsets are checked without a cluster; a function that asks one gets it as an argument. The map,
bottom-up:

option_names        lists the connector's options, with their spelling, and those refused with the reasons
source_offsets      reads and writes the offsets of checkpoints: the connector's JSON, and the ids of topics
java_regex          translates patterns in Java's syntax for `re`
integer_ranges      sets of offsets, partitions and times
record_filter       the filter of a batch's records, by which ranges are not read at all
where_option        reads such a filter in the syntax of SQL
range_limits        reads the options for the beginning and the end of a read
source_options      reads all options, and checks them as a whole
source_schema       the columns, and those that a user's schema names
data_loss           finds lost data, and fails or warns
admission           limits the offsets of a micro-batch
splits              divides ranges of offsets into tasks
progress            computes the lag of a query in offsets
lag_time            computes the lag of a query in time
subscription        finds the partitions of a subscription (asks)
log_ends            finds the ends of logs, and the offsets that options mean (asks)
batch_plan          plans the ranges of a batch (asks)
stream_plan         plans the ranges of a micro-batch (asks)
range_rows          reads the rows of a range, and handles their loss (asks)
"""
