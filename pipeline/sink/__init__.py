"""sink: rows of Spark's tasks into topics, at least once or exactly once.

The map, bottom-up:

sink_options        what a sink is told, judged whole
gathered_rows       small batches of rows joined into larger ones
row_writer          rows of one task to their partitions
slots               the names of a sink's transactions
record_parts        a long record in the metadata of several offsets
commit_record       the record of a decided batch, packed
decisions           what a batch's driver and tasks decide; pure
sink_cluster        what exactly-once asks of a cluster
batch_messages      what driver and tasks tell each other
driver              before a batch, at its decision, after it has failed
task_transaction    a task's part: a slot of its own
"""
