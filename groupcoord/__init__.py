"""groupcoord: consumer groups and their offsets, as pure decisions over records.

The map, bottom-up. It has three layers: words (the types that commands and records are made of), the state of
a shard, and the decisions over it. A folder has modules in several layers, and a map with the same headings:
read the words of all folders, then their state, then their decisions. A module imports only from lines above
its own; from another folder it imports only modules of an earlier layer, or of a folder that stands above its
own in the same layer.

Words:

coordinator_config  the settings that a coordinator obeys, and its limits
topics_view         the cluster's topics as the coordinator sees them
group_hash          64 bits over the topics of a group, by which a change of them is found
assignment          sets of partitions: a target, or owned partitions with the epoch of each
recent_topics       the names of topics that changed recently
timeline            the last rebalances of a group, with their causes
topic_regex         regular expressions over topic names, by RE2 and bounded
request_token       the number of a request that waits for its answer
heartbeat_phase     the phases of a heartbeat that the coordinator may hold
shard_bytes         bytes that a shard holds of one kind, counted for all shards of a node together
member_bytes        the bytes of members, and their limits
log_scan            reads a coordinator's log: its batches, keys and values
group_records       the records of offsets and classic groups in __consumer_offsets
record_layout       encodes and decodes kinds of records whose schema has one version
admin_commands      the commands of administrators
admin_results       the results of administrators' commands
timer_commands      the commands that timers bring
java_hash_order     the order in which Java's hash maps iterate over their keys
assignors           the assignors `uniform`, `range` and `simple`
offsets             the commands, results and records of committed offsets
coordinator_effects  the effects of every coordinator: records, answers, timers
share_state         the commands, results and records of share-partition state
classic             the commands and results of the classic protocol
consumer            the commands, results and records of the consumer protocol (KIP-848)
share               the commands, results and records of share groups (KIP-932)
record_codec        encodes and decodes the records of __consumer_offsets
commands            the union of all commands of a shard
effects             the effects of a shard of groups

State:

subscribed_topics   the topics that a group subscribes to, counted
offsets             the committed offsets of a shard, and those of open transactions
classic             a classic group and its members
consumer            a consumer group
share               a share group
share_state         the share-partition states of a shard
held_heartbeats     heartbeats that are answered when their member has something to learn
shard               the groups and offsets of one partition; replay

Decisions:

shard_load          fills a shard from a scanned log
checked_append      appends one batch of records that belong together
wake_heartbeats     wakes the held heartbeats that a change concerns
classic             JoinGroup, SyncGroup, Heartbeat, LeaveGroup; the rebalance
consumer            ConsumerGroupHeartbeat; members of the classic protocol in a consumer group; migration
offsets             OffsetCommit, OffsetFetch, OffsetDelete; expiry
share               ShareGroupHeartbeat; share-partition state begins and ends; offsets of share groups
describe_groups     DescribeGroups, ListGroups
coordinator         one shard: dispatch, replay, start, stop
share_state         the share coordinator: requests, snapshots, pruning
transactions        transactional ids, by their own map
"""
