"""client: the pipeline's own client of a Kafka cluster. It blocks, sends many requests before one answer, and
moves bytes, not rows.

The map, bottom-up:

setting_names       which settings of Java's clients have no effect here, which are refused and why; secrets
setting_files       values of settings that lie in files of their own
own_options         the options of a format that are no settings of its client
client_settings     those that are honoured, read from options
retries             trying again, with pauses that grow (door)
first_contact       whether a node that ends connections stops, or wants TLS or a login
dialling            sockets to nodes, in the clear or over TLS (door)
connection          one socket: requests out, answers in, versions agreed, logins (door)
connections         sockets by node and purpose; after a fork none (door)
answers             errors in answers as exceptions
metadata            Cluster: topics, leaders, coordinators, and attempts through their changes
process_clusters    the clusters that a process knows, kept from task to task
offset_range        a range of offsets to be read
topic_admin         topics made and grown, their settings read and changed
list_offsets        offsets by time and the ends of logs
group_offsets       offsets of a group that Spark commits beside its checkpoint
group_admin         which groups there are, and whether they have members
broker_settings     settings of nodes that a client has to keep to
group_settings      offsets of a group that never expire
producer_ids        a producer id for one who writes without transactions
batch_limits        how large a batch a topic takes
batch_sender        batches to their leaders, in order and once, through changes of leaders
offset_syncs        records that tell where copied rows were placed
transactions        many at once by id: begun, ended, described, with a group's offsets
partition_fetcher   a range of a partition, fetch by fetch, through changes of leaders
"""
