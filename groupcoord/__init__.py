"""groupcoord: consumer groups and their offsets, as pure decisions over records.

The map, bottom-up. It has three layers: words, which commands and records are made of; the state of a shard;
decisions over it. A folder has modules in several layers, and a map with the same headings: read the words of
all folders, then their state, then their decisions. A module imports only from lines above its own, and from
another folder only what stands above its own folder in the same layer, or in a layer above.

Words:

coordinator_config  the settings that a coordinator obeys, and its limits
topics_view         what is known of the cluster's topics
group_hash          64 bits over the topics of a group, by which a change of them is found
assignment          partitions that a member shall own, or owns and since when
recent_topics       topics that changed lately
timeline            the last rebalances of a group, and why
topic_regex         expressions over the names of topics, by RE2 and bounded
request_token       names a request until it is answered
heartbeat_phase     how far the coordinator has come with a heartbeat that it may hold
shard_bytes         bytes that a shard holds of one kind, among those of all shards of a node
member_bytes        what members take, and the most that they may
log_scan            bytes of a coordinator's log: its batches, keys and values
group_records       offsets and classic groups in __consumer_offsets
record_layout       kinds of records with one version: to bytes and back
admin_commands      what administrators ask of groups
admin_results       what administrators are answered
timer_commands      what timers bring
java_hash_order     the order in which Java's hash maps go through their keys
assignors           who shall own which partition: `uniform`, `range` and `simple`
offsets             what is asked of committed offsets, answered and recorded
coordinator_effects  the effects of every coordinator: records, answers, timers
share_state         what is asked of the state of share-partitions, answered and recorded
classic             what members of the classic protocol ask and are answered
consumer            what members of the consumer protocol (KIP-848) ask and are answered, and its records
share               what is asked of share groups (KIP-932) and answered, and their records
record_codec        records to bytes and back
commands            all that a shard can be asked
effects             what a shard of groups asks of the world

State:

subscribed_topics   the topics that a group subscribes to, counted
offsets             the committed offsets of a shard, and those of open transactions
classic             a classic group and its members
consumer            a consumer group
share               a share group
share_state         the states of a shard of share-partitions
held_heartbeats     heartbeats that wait until there is something to tell
shard               groups and offsets of one partition; replay

Decisions:

shard_load          a shard made of a scanned log
checked_append      one batch of records that belong together
wake_heartbeats     which of them are woken by what has just changed
classic             JoinGroup, SyncGroup, Heartbeat, LeaveGroup; the rebalance
consumer            ConsumerGroupHeartbeat; members of the classic protocol in a consumer group; migration
offsets             OffsetCommit, OffsetFetch, OffsetDelete; expiry
share               ShareGroupHeartbeat; share-partitions whose state begins and ends; offsets of share groups
describe_groups     DescribeGroups, ListGroups
coordinator         one shard: dispatch, replay, start, stop
share_state         the share coordinator: requests, snapshots, pruning
transactions        transactional ids, by their own map
"""
