"""ottla.groupcoord.share_state: the share coordinator of Kafka (KIP-932), as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

share_state_words   what is asked about the state of share-partitions, and what is answered
share_state_config  the settings that a share coordinator obeys, and its limits
combine_batches     batches of states that overlap, made into one list that does not
share_state         the state of a share-partition, and what an update makes of it
share_state_records  the state in __share_group_state, both ways
share_state_commands  what a shard can be asked
share_state_effects  what a shard asks of the world

State:

redundant_offsets   up to which offset the log of a shard says nothing that is not said later
share_state_shard   the states of one partition; replay
share_state_scan    bytes of the log, replayed into a shard

Decisions:

check_request       for what each request is refused
write_state         InitializeState, WriteState, DeleteState, and the reads
cold_snapshots      new snapshots of share-partitions that are seldom written
forget_topics       states of topics that were deleted
share_coordinator   dispatch, start, stop
"""
