"""client: the pipeline's own client of a Kafka cluster. It blocks, sends many requests before one answer, and
moves bytes, not rows.

The map, bottom-up:

setting_names       which settings of Java's clients have no effect here, which are refused and why; secrets
client_settings     those that are honoured, read from options
retries             trying again, with pauses that grow (door)
connection          one socket: requests out, answers in, versions agreed (door)
connections         sockets by node and purpose; after a fork none (door)
answers             errors in answers as exceptions
metadata            Cluster: topics, leaders, coordinators, and attempts through their changes
list_offsets        offsets by time and the ends of logs
group_offsets       offsets of a group that Spark commits beside its checkpoint
batch_sender        batches to their leaders, in order and once, through changes of leaders
transactions        many at once by id: begun, ended, described, with a group's offsets
partition_fetcher   a range of a partition, fetch by fetch, through changes of leaders
"""
