"""ottla.node.coordinators: the coordinators of groups, transactions and share groups on this node. Bottom-up:

commit_order        which commits of offsets in a transaction are copies that come late
coordinator_log     what a shard appends to its partition, and the answers that wait until it is there
group_configs       what each group obeys
group_lag           how far groups are behind, in records and in time
group_topics        the topics of the metadata as the coordinator of groups wants to see them
key_partition       which partition of a coordinator's topic holds a key
marker_messages     markers in memory and on the wire (WriteTxnMarkers), both ways
shard_loader        reads the log of a shard in a thread, a piece at a time
share_state_messages  the state of share-partitions in words and on the wire, both ways
timer_queue         timers by name
coordinator_shard   one shard of any coordinator, and the order of what happens in it
coordinator_runtime  the shards of any coordinator on this node: loads them, routes commands and answers
group_loader        loads a shard of the group coordinator
persister_jobs      what share groups ask of the share coordinators, and its way back
group_shard         what the group coordinator alone does in a shard
txn_shard           what the transaction coordinator alone does in a shard
share_state_shard   what the share coordinator alone does in a shard
txn_gate            asks transaction coordinators on behalf of leaders
group_runtime       the group coordinator of this node
txn_runtime         the transaction coordinator of this node
share_state_runtime  the share coordinator of this node
share_persister     asks share coordinators on behalf of this node
marker_writer       the leader's part in the end of a transaction
marker_sender       how the partitions of a transaction learn that it ended

A further coordinator is a pure core in groupcoord, a file here that makes `ShardParts` of what only it does,
and a file that has a `CoordinatorRuntime` and answers request handlers.
"""
