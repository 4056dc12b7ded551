"""ottla.groupcoord.share: share groups (KIP-932), whose members share partitions record by record.

A member sends ShareGroupHeartbeat. The path of one, in `share_group_heartbeat`, in the order of Kafka's
GroupMetadataManager: `validate_share_heartbeat`; the group and the member; its subscription; *group epoch*
plus one if that, the topics or the initialized partitions differ; a target by the assignor `simple`, at most
one in an assignment interval; the member goes to its target at once, since partitions are shared.

A partition is assigned once a share coordinator has begun its state. `share_states` finds the subscribed
partitions without state, records them as *initializing* and has the persister begin their state
(`share_effects`). Its answer comes back as a command and makes them *initialized*, which is a new group epoch
at the next heartbeat. DeleteShareGroupOffsets and DeleteGroups take the opposite way: *deleting*, the
persister, deleted. Their clients wait until it is done.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

share_group_state   states of a share group, and the table of what each means
share_records       share groups in __consumer_offsets
share_member        a member of a share group
share_commands      the commands of members, administrators, timers and the node
share_results       the results for members of share groups, and for their administrators
share_effects       the requests of a share group to the share coordinators

State:

share_group         a share group, changed by replay only

Decisions:

share_group_describe  ShareGroupDescribe
share_membership    members come and go: records and timers
share_states        begins and ends the state of share-partitions
validate_share_heartbeat  checks the fields of a ShareGroupHeartbeat
share_target        the target assignment of a group epoch, made by the assignor `simple`
share_group_heartbeat  ShareGroupHeartbeat, whatever it changes
share_group_offsets  lists, alters and deletes the offsets of share groups
delete_share_groups  DeleteGroups, where share groups are among them
decide_share_command  passes each command to the module that decides it
"""
