"""groupcoord: consumer groups and their offsets, as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own:

coordinator_config  the settings that a coordinator obeys, and its limits
group_state         five states and the table of their moves
commands            what a shard can be asked
group_records       keys and values of __consumer_offsets
record_fold         a log folded to the last record of each key
effects             what a shard asks of the world, and its answers
member              a member of a group
group               a group, and the changes that keep its parts in step
offset_store        the committed offsets of a shard
shard               groups and offsets of one partition; replay
rebalance           from the first join of a generation to the last sync
join_group          JoinGroup: new, returning and static members
sync_group          SyncGroup: assignments in, assignments out
heartbeat           Heartbeat
leave_group         LeaveGroup, in batches
offset_commit       OffsetCommit
offset_fetch        OffsetFetch
offset_expiry       expiry and deletion of offsets and groups
describe_groups     DescribeGroups, ListGroups
coordinator         one shard: dispatch, replay, start, stop
"""
