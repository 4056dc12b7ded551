"""ottla.node.client: what programs ask of a cluster: the command line, and the REST API. Bottom-up:

batch_builder         a record batch that grows record by record
deadline              until when a request or a command may take
group_offsets         where the offsets of a group go when they are reset
json_refusal          why a JSON document is refused, in a sentence that names the field
leadership            who leads, and how that is changed
moments               moments and durations as people write them, in milliseconds
quorum_silence        words for a node without contact to a leader of the metadata quorum
record_cursor         records out of the bytes of an answer to Fetch, opened as they are taken
refusal               a sentence for whoever asked for something that cannot be done as things are
reassignment_plan     plans of reassignments, in the JSON of kafka-reassign-partitions
acquired_records      records that a share group has given to this member, and how they are acknowledged
cluster_client        what every command needs of a cluster
exact_json            JSON that is stored as it was written
ask_brokers           one question to every broker
ask_leaders           questions about partitions to their leaders
cluster_right         which right on the cluster a login lacks
acl_admin             access control entries
cluster_admin         brokers, and where the replicas of partitions lie
group_member          a member of a consumer group, in the classic protocol
node_counts           counters of each node and their history, asked over the Kafka protocol
share_member          a member of a share group
share_consumer        records of a share group, acknowledged one by one
consumer              records out of partitions
share_group_admin     where share groups read
group_admin           groups, their members and what they committed
log_dirs              the log directories of brokers
quorum_admin          the metadata quorum
quota_admin           quotas of users, client ids and addresses
topic_admin           topics and their settings
record_deletion       the records before an offset are deleted
txn_admin             transactions, and the producers that a log knows
user_admin            SCRAM users and their passwords
cluster_health        whether a cluster is well
config_admin          the settings of topics, brokers and groups, with where each value comes from
dead_letters          what the headers of a record say of its origin, if it is a dead letter
acl_check             whether somebody may do something, and by which rule
balance_exclusion     the lists of brokers that a balance empties, or gives no leaders
decommission          how a broker leaves for good
group_as_json         rebalances and resets of groups as programs read them
share_group_as_json   what share groups have in flight, as programs read it
group_lag             how far groups are behind, in records and in time
group_reset           resets of a group's offsets
hanging_transactions  transactions that a log has open and nobody will end
balance               how a cluster is balanced by those who run it
leader_moves          leadership is moved
newest_records        where the newest N records of partitions begin, counting only what a reader sees
reassignments         how far the partitions are that move
stored_batches        a batch whose answer was lost
throttles             how fast replicas may be copied (KIP-73)
producer              records into batches, batches to leaders
txn_as_json           transactions and producers as programs read them, from the command line and over REST
record_batches        records on their way
txn_control           what is done about transactions
record_sender         records of many callers at once, to any topics
"""
