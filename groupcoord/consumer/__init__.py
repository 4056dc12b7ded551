"""ottla.groupcoord.consumer: groups of the consumer protocol (KIP-848), which the coordinator rebalances.

A member sends ConsumerGroupHeartbeat alone. The path of one:

1. `coordinator` tries `unchanged_heartbeat` first: a member that reports nothing new and has nothing to learn
   gets its last answer again, and its session is renewed.
2. Otherwise `consumer_group_heartbeat` decides, in the order of Kafka's GroupMetadataManager:
   - `validate_heartbeat` rejects what no group could take; `leave_consumer_group` has the member epochs -1
     and -2.
   - The group: an existing one, a new one, or a classic group that `upgrade_group` converts. The member: a
     known one, a new one, or a static one that replaces the previous member of its instance id; its epoch is
     checked, and the fields of the request are taken over.
   - `regular_expressions`: a new expression, or new topics, make a task (`executor_tasks`) for a thread, and
     `RegexesResolved` comes back later, as another decision.
   - *Group epoch* (`group_epoch.bump_group_epoch`): one more if a subscription or the topics differ; topics
     are compared by `group_hash`.
   - *Assignment epoch* (`group_epoch.update_target_assignment`): for a newer group epoch an assignor makes a
     target assignment (`target_assignment`; Kafka's TargetAssignmentBuilder): at once, after the assignment
     interval (`ComputeTarget`), or for a large group in a thread (`TargetComputed`).
   - *Member epoch* (`reconciliation`; Kafka's CurrentAssignmentBuilder): one step of this member to its
     target: revoke partitions, wait until others have released theirs, or own all. `member_state` has the
     table of moves. A member that must revoke has its rebalance timeout for it; then `consumer_timers`
     fences it.
   The changes are one batch of records, in Kafka's order. The coordinator replays them (`consumer_group` is
   the state), and the reply leaves when they are committed.
3. If its client may wait, `hold_heartbeat` holds an answer without news (`held_heartbeats`): it leaves when
   records or topics wake it (`wake_heartbeats`), or shortly before the member's next heartbeat is due.

`consumer_membership` has the records, tombstones and timers of joining, leaving and fencing. Requests of
members of the classic protocol in a consumer group go through `classic_to_consumer_group`; when the last
member of the consumer protocol leaves, `downgrade_group` makes it a classic group.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

consumer_group_state  states of a consumer group, and the table of what each means
member_state        states of a member of a consumer group, and the table of their moves
consumer_commands   the heartbeat of the consumer protocol, and the commands of timers and of the node
migration_commands  the commands of a group that changes its protocol
consumer_records    consumer groups in __consumer_offsets
consumer_member     a member of a consumer group
consumer_results    the results for members of consumer groups, and for their administrators
executor_tasks      the tasks of a thread: matching expressions, making large targets

State:

reconciliation      one step of a member to its target assignment
consumer_group      a consumer group, changed by replay only

Decisions:

validate_offset_requests  checks if a member may commit or fetch offsets
consumer_group_describe  ConsumerGroupDescribe
target_assignment   the target assignment of a group epoch, made by an assignor
downgrade_group     makes a consumer group a classic one
consumer_membership  members join, leave and are fenced: records and timers
group_epoch         raises the group epoch, and has a target assignment made for it
regular_expressions  expressions that members subscribe to
upgrade_group       makes a classic group a consumer group
validate_heartbeat  checks the fields of a ConsumerGroupHeartbeat
leave_consumer_group  a member leaves for good, or a static one for a while
consumer_group_heartbeat  ConsumerGroupHeartbeat, whatever it changes
unchanged_heartbeat  ConsumerGroupHeartbeat that changes nothing
hold_heartbeat      holds an answer until its member has something to learn
consumer_timers     timers of consumer groups
classic_join_to_consumer_group  JoinGroup to a consumer group
classic_to_consumer_group  requests of the classic protocol to a consumer group
"""
