"""ottla.node.client: the client of a cluster that the command line and the REST API share. Bottom-up:

batch_builder         a record batch that grows record by record
deadline              the deadline of a request or a command
group_offsets         resets of a group's offsets: targets, plans and files, without a cluster
json_refusal          the reason why a JSON document is rejected, with the name of the field
leadership            plans that change the leaders of partitions
moments               times and durations as people write them, in milliseconds
quorum_silence        the sentence about a node without contact to a leader of the metadata quorum
record_cursor         the records in a Fetch response, opened as they are read
refusal               the error for a request that the state of the cluster does not allow
reassignment_plan     plans of reassignments, in the JSON of kafka-reassign-partitions
acquired_records      records that this member of a share group has acquired, and their acknowledgements
cluster_client        connections, metadata, leaders, coordinators and retries
exact_json            JSON that is stored as it was written
ask_brokers           a request to every broker at once
ask_leaders           requests about partitions to their leaders
cluster_right         names the right on the cluster that a client lacks
acl_admin             access control entries
cluster_admin         brokers, replicas, reassignments and elections
group_member          a member of a consumer group, in the classic protocol
node_counts           the counters of each node and their history, requested over the Kafka protocol
share_member          a member of a share group
share_consumer        a consumer of a share group, which acknowledges each record
consumer              a consumer of partitions
share_group_admin     the start offsets and lags of share groups
group_admin           groups, their members and their committed offsets
log_dirs              the log directories of brokers
log_dir_moves         moves of replicas between the log directories of their brokers
quorum_admin          the metadata quorum
quota_admin           quotas of users, client ids and addresses
topic_admin           topics, their settings and their offsets
record_deletion       deletes the records before an offset
txn_admin             transactions, and the producers in the logs of partitions
user_admin            SCRAM users and their passwords
cluster_health        the health of a cluster
config_admin          the settings of topics, brokers and groups, with the source of each value
dead_letters          the origin of a dead letter, from its headers
acl_check             decides if a principal may perform an operation, and names the rule
balance_exclusion     the lists of brokers that a balance empties, or gives no leaders
decommission          moves all replicas off a broker and unregisters it
group_as_json         rebalances and resets of groups as JSON
share_group_as_json   the records in flight of share groups as JSON
group_lag             the lag of groups, in records and in time
group_reset           resets of a group's offsets
hanging_transactions  transactions that are open in a log and that no coordinator will end
balance               the balance of a cluster: its plan, start, progress and end
leader_moves          moves leaders
newest_records        the offsets at which the newest N records of partitions begin
reassignments         the progress of reassignments
stored_batches        finds out if a batch whose response was lost is in the log
throttles             throttles of replication (KIP-73)
producer              the producer of `ottla produce`
txn_as_json           transactions and producers as JSON
record_batches        pending batches, and the queues that send them in order
txn_control           inspects and aborts transactions, and finds hanging ones
record_sender         the producer of the REST API, for many callers at once
"""
