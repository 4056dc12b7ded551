"""ottla.groupcoord.consumer: groups of the consumer protocol (KIP-848), which the coordinator rebalances.

A member sends ConsumerGroupHeartbeat alone. The path of one:

1. `coordinator` asks `unchanged_heartbeat` first: a member that says nothing new and has nothing to learn
   gets the answer of the last time, and its session timeout anew.
2. Otherwise `consumer_group_heartbeat` decides, in the order of Kafka's GroupMetadataManager:
   - `validate_heartbeat` refuses what no group could take; `leave_consumer_group` has the member
     epochs -1 and -2.
   - The group: there, new, or a classic group that `upgrade_group` converts. The member: known, new, or a
     static one in the place of the member before; its epoch is checked, and what the request says of it is
     taken over.
   - `regular_expressions`: an expression that is new, or topics that are new, make a task
     (`executor_tasks`) for a thread, and `RegexesResolved` comes back later, as another decision.
   - *Group epoch* (`group_epoch.bump_group_epoch`): one more if a subscription or the topics differ; topics
     are compared by `group_hash`.
   - *Assignment epoch* (`group_epoch.update_target_assignment`): a group epoch that is newer has a target
     assignment made by an assignor (`target_assignment`; Kafka's TargetAssignmentBuilder): at once, after
     the assignment interval (`ComputeTarget`), or for a large group in a thread (`TargetComputed`).
   - *Member epoch* (`reconciliation`; Kafka's CurrentAssignmentBuilder): one step of this member to its
     target: revoke partitions, wait until others have released theirs, or own all. `member_state` has the
     table of moves. A member that must revoke has its rebalance timeout for it; then `consumer_timers`
     fences it.
   What changed is one batch of records, in Kafka's order. The coordinator replays them (`consumer_group` is
   the state), and the reply leaves when they are committed.
3. If its client may wait, `hold_heartbeat` holds an answer that tells nothing (`held_heartbeats`): it
   leaves when records or topics wake it (`wake_heartbeats`), or shortly before the member's next heartbeat
   is due.

`consumer_membership` is what joining, leaving and fencing share: records, tombstones, timers. Members of
the classic protocol in a consumer group ask by way of `classic_to_consumer_group`; when the last member of
the consumer protocol goes, `downgrade_group` makes a classic group of it.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

consumer_group_state  states of a consumer group, and the table of what each means
member_state        states of a member of a consumer group, and the table of their moves
consumer_commands   what is asked of consumer groups
migration_commands  what a group that changes its protocol has to do
consumer_records    consumer groups in __consumer_offsets
consumer_member     a member of a consumer group
consumer_results    what members of consumer groups, and administrators of them, are answered
executor_tasks      what a thread does: matching expressions, making large targets

State:

reconciliation      one step of a member to its target assignment
consumer_group      a consumer group, changed by replay only

Decisions:

validate_offset_requests  may a member commit and fetch these offsets
consumer_group_describe  ConsumerGroupDescribe
target_assignment   the target assignment of a group epoch, made by an assignor
downgrade_group     a consumer group becomes a classic one
consumer_membership  members join, leave and are fenced: records and timers
group_epoch         when a group epoch begins, and when a target assignment is made for it
regular_expressions  expressions that members subscribe to
upgrade_group       a classic group becomes a consumer group
validate_heartbeat  what a ConsumerGroupHeartbeat must have
leave_consumer_group  a member leaves, for good or, a static one, for a while
consumer_group_heartbeat  ConsumerGroupHeartbeat, whatever it changes
unchanged_heartbeat  ConsumerGroupHeartbeat that changes nothing
hold_heartbeat      an answer that tells nothing is held until there is something to tell
consumer_timers     timers of consumer groups
classic_join_to_consumer_group  JoinGroup to a consumer group
classic_to_consumer_group  requests of the classic protocol to a consumer group
"""
