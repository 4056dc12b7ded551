"""ottla.groupcoord.share: share groups (KIP-932), whose members share partitions record by record.

A member sends ShareGroupHeartbeat. The path of one, in `share_group_heartbeat`, in the order of Kafka's
GroupMetadataManager: `validate_share_heartbeat`; the group and the member; its subscription; *group epoch*
plus one if that, the topics or the initialized partitions differ; a target by the assignor `simple`, at most
one in an assignment interval; the member goes to its target at once, since partitions are shared.

A partition is assigned once a share coordinator has begun its state. `share_states` finds those that are
subscribed to and have none, writes them down as *initializing* and has the persister asked
(`share_effects`); what it answers comes back as a command and makes them *initialized*, which is a new group
epoch at the next heartbeat. DeleteShareGroupOffsets and DeleteGroups go the same way back: *deleting*, the
persister, done. Who asked waits for it.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

share_group_state   states of a share group, and the table of what each means
share_records       share groups in __consumer_offsets
share_member        a member of a share group
share_commands      what is asked of share groups
share_results       what members of share groups, and administrators of them, are answered
share_effects       what a share group asks of the share coordinators

State:

share_group         a share group, changed by replay only

Decisions:

share_group_describe  ShareGroupDescribe
share_membership    members come and go: records and timers
share_states        share-partitions whose state begins, is there or ends
validate_share_heartbeat  what a ShareGroupHeartbeat must have
share_target        the target assignment of a group epoch, made by the assignor `simple`
share_group_heartbeat  ShareGroupHeartbeat, whatever it changes
share_group_offsets  offsets of share groups are listed, altered and deleted
delete_share_groups  DeleteGroups, where share groups are among them
decide_share_command  each command to the module that decides it
"""
