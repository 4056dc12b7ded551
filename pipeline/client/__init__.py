"""client: a Kafka client of the pipeline's own, which blocks, pipelines requests, and moves bytes, not rows.

The map, bottom-up:

setting_names       the settings of Java's clients without effect, those refused and why, and the secret ones
setting_files       reads values of settings that are kept in files of their own
own_options         reads the options of a format that are not settings of its client
client_settings     reads the settings that are honoured from options
clock               reads the time, in milliseconds (door)
retries             repeats attempts, with pauses that grow (door)
first_contact       judges whether a node that ends connections is stopping, or wants TLS or a login
dialling            connects sockets to nodes, unencrypted or over TLS (door)
connection          one socket: requests out, answers in, versions agreed, logins (door)
connections         keeps connections by node and purpose; drops them after a fork (door)
answers             turns errors in answers into exceptions
metadata            Cluster: topics, leaders, coordinators, and attempts that outlast their changes
process_clusters    keeps the clusters of a process from task to task
offset_range        a range of offsets to be read
topic_admin         creates topics, adds partitions, reads and changes their settings
list_offsets        finds offsets by time and the ends of logs
group_offsets       commits and fetches the offsets of a group without joining it
group_admin         lists groups, and checks whether they have members
broker_settings     reads the settings of brokers that a client must keep to
group_settings      lets the offsets of a group never expire
producer_ids        gets a producer id for writes without transactions
batch_limits        asks for the largest batch that a topic takes
batch_sender        sends batches to their leaders, in order and once, through changes of leaders
offset_syncs        encodes and reads records with the places of copied rows
transactions        begins, ends and describes many transactions at once by id, with a group's offsets
partition_fetcher   reads a range of a partition, fetch by fetch, through changes of leaders
"""
