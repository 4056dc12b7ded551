"""groupcoord: consumer groups and their offsets, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own:

coordinator_config  the settings that a coordinator obeys, and its limits
group_state         five states and the table of their moves
member_state        states of a member of a consumer group, and the table of their moves
topics_view         what is known of the cluster's topics
assignment          partitions that a member shall own, or owns and since when
assignor_spec       what an assignor is told
range_assignor      the assignor `range`
uniform_mixed       the assignor `uniform` where subscriptions differ
uniform_assignor    the assignor `uniform`
assignors           the assignors by their names
recent_topics       topics that changed lately
timeline            the last rebalances of a group, and why
topic_regex         expressions over the names of topics, by RE2 and bounded
group_hash          whether topics are as they were
request_token       names a request until it is answered
hold_phase          how far a heartbeat is that may wait
heartbeat_pace      how often a member heartbeats
member_commands     JoinGroup, SyncGroup, Heartbeat, LeaveGroup
shard_bytes         bytes that a shard holds of one kind, among those of all shards of a node
member_bytes        what members take, and the most that they may
offset_bytes        what committed offsets take, and the most that they may
offset_commands     what is asked of committed offsets
admin_commands      what administrators ask of groups
consumer_commands   what is asked of consumer groups
timer_commands      what timers bring
migration_commands  what a group that changes its protocol has to do
commands            all that a shard can be asked
group_records       offsets and classic groups in __consumer_offsets
consumer_records    consumer groups (KIP-848) in __consumer_offsets
consumer_protocol   what consumers of a classic group say to each other
offset_values       the bytes of a committed offset, packed and read
record_codec        records to bytes and back
member_results      what members are answered
offset_results      what is answered about offsets
admin_results       what administrators are answered
consumer_member     a member of a consumer group
consumer_results    what members of consumer groups, and administrators of them, are answered
aside               work that a thread does
coordinator_effects  the effects of every coordinator: records, answers, timers
effects             what a shard of groups asks of the world
held_heartbeats     heartbeats that wait for news
reconciliation      one step of a member towards its target
consumer_group      a consumer group, changed by replay only
target_assignment   who shall own what, as an assignor says
classic_member      a member of a classic group
classic_group       a classic group, and the changes that keep its parts in step
classic_group_record  a classic group as its record, both ways
offset_store        the committed offsets of a shard
pending_offsets     offsets of open transactions, and which of them counts in the end
log_scan            bytes of a coordinator's log: its batches, keys and values
offset_log_scan     what they come to: the last record of each key
shard               groups and offsets of one partition; replay
shard_load          a shard made of a scanned log
heartbeat_news      what has changed for those that wait
rebalance           from the first join of a generation to the last sync
join_group          JoinGroup: new, returning and static members
sync_group          SyncGroup: assignments in, assignments out
heartbeat           Heartbeat
leave_group         LeaveGroup, in batches
consumer_commit     what a consumer group says to OffsetCommit and OffsetFetch
offset_commit       OffsetCommit
offset_fetch        OffsetFetch
offset_delete       OffsetDelete, and offsets of topics that are gone
offset_expiry       expiry of offsets and groups; DeleteGroups
describe_groups     DescribeGroups, ListGroups
consumer_describe   ConsumerGroupDescribe
downgrade_group     a consumer group becomes a classic one
consumer_membership  members of consumer groups come and go
member_change       what a member's change means for its consumer group
consumer_regexes    expressions that members subscribe to
upgrade_group       a classic group becomes a consumer group
consumer_request    what a ConsumerGroupHeartbeat must have
consumer_leave      a member leaves its consumer group
consumer_heartbeat  ConsumerGroupHeartbeat
consumer_beat       ConsumerGroupHeartbeat that changes nothing, and how it waits
consumer_timers     timers of consumer groups
join_consumer_group  JoinGroup at a consumer group
classic_in_consumer  members of the classic protocol at a consumer group
coordinator         one shard: dispatch, replay, start, stop
transactions        transactional ids, by their own map
"""
