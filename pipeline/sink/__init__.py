"""sink: rows of Spark's tasks into topics, at least once or exactly once.

The map, bottom-up:

sink_options        reads the options of a sink, and checks them as a whole
gathered_rows       joins small batches of rows into larger ones
row_writer          writes the rows of one task to their partitions
slots               the names of a sink's transactions
record_parts        divides a long record among the metadata of several offsets
commit_record       encodes and reads the record of a decided batch
decisions           the decisions of a batch's driver and tasks; pure
sink_cluster        the requests of exactly-once to a cluster
batch_messages      the messages between driver and tasks
driver              the driver's part: before a batch, its decision, and after a failure
task_transaction    a task's part: a slot of its own
"""
