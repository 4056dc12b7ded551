"""ottla.node.coordinators: the coordinators of groups, transactions and share groups on this node. Bottom-up:

commit_order        finds commits of offsets in a transaction that are late copies
coordinator_log     appends the records of a shard, and holds answers until these are committed
group_configs       the settings of each group
group_lag           measures how far groups are behind, in records and in time
group_topics        shows the topics of the metadata to the group coordinator
key_partition       computes the partition of a coordinator's topic that holds a key
marker_messages     converts markers to and from the wire (WriteTxnMarkers)
shard_loader        reads the log of a shard in a thread, a piece at a time
share_state_messages  converts requests about the state of share-partitions to and from the wire
timer_queue         timers by name
coordinator_shard   one shard of any coordinator, and the order of the steps of a command
coordinator_runtime  the shards of any coordinator on this node: loads them, routes commands and answers
group_loader        loads a shard of the group coordinator
persister_jobs      runs the requests of share groups to the share coordinators, and returns the results
group_shard         the parts of a shard that only the group coordinator has
txn_shard           the parts of a shard that only the transaction coordinator has
share_state_shard   the parts of a shard that only the share coordinator has
txn_gate            asks transaction coordinators to verify or add partitions, on behalf of leaders
group_runtime       the group coordinator of this node
txn_runtime         the transaction coordinator of this node
share_state_runtime  the share coordinator of this node
share_persister     asks share coordinators on behalf of this node
marker_writer       writes transaction markers into the partitions that this node leads
marker_sender       sends the markers of a transaction to the leaders of its partitions

A further coordinator is a pure core in groupcoord, a file here that makes its `ShardParts`, and a file that
has a `CoordinatorRuntime` and answers request handlers.
"""
