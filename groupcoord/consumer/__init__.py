"""ottla.groupcoord.consumer: groups of the consumer protocol (KIP-848), whose members the coordinator leads.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

member_state        states of a member of a consumer group, and the table of their moves
group_hash          whether topics are as they were
consumer_commands   what is asked of consumer groups
migration_commands  what a group that changes its protocol has to do
consumer_records    consumer groups in __consumer_offsets
consumer_member     a member of a consumer group
consumer_results    what members of consumer groups, and administrators of them, are answered
aside               work that a thread does

State:

reconciliation      one step of a member towards its target
consumer_group      a consumer group, changed by replay only

Decisions:

consumer_commit     what a consumer group says to OffsetCommit and OffsetFetch
consumer_describe   ConsumerGroupDescribe
target_assignment   who shall own what, as an assignor says
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
"""
