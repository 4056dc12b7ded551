"""ottla.node.coordinators: the coordinators of groups and transactions on this node. Bottom-up:

commit_order        which commits of offsets in a transaction are copies that come late
coordinator_log     what a shard appends to its partition, and the answers that wait until it is there
group_configs       what each group obeys
group_lag           how far groups are behind, in records and in time
group_topics        the topics of the metadata as the coordinator of groups wants to see them
marker_messages     markers in memory and on the wire (WriteTxnMarkers), both ways
shard_loader        loads shards of the coordinators
timer_queue         timers by name
coordinator_shards  the shards of one coordinator on this node
group_loader        loads a shard of the group coordinator
txn_shard           one shard of the transaction coordinator on this node
group_shard         one shard of the group coordinator on this node
txn_gate            asks transaction coordinators on behalf of leaders
txn_runtime         the transaction coordinator of this node
group_runtime       the group coordinator of this node
marker_writer       the leader's part in the end of a transaction
marker_sender       how the partitions of a transaction learn that it ended
"""
