"""ottla.groupcoord.share_state: the share coordinator of Kafka (KIP-932), as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and by the layers of groupcoord:

Words:

share_state_words   requests about the state of share-partitions, and their results
share_state_config  the settings that a share coordinator obeys, and its limits
combine_batches     combines the batches of two states into one list without overlaps
share_state         the state of a share-partition, and its updates
share_state_records  encodes and decodes the records of __share_group_state
share_state_commands  the commands of a shard
share_state_effects  the effects of a shard

State:

redundant_offsets   finds the offset before which later records have made the log redundant
share_state_shard   the states of one partition; replay
share_state_scan    replays the bytes of a log into a shard

Decisions:

check_request       the checks of each request to the share coordinator, in a table
write_state         InitializeState, WriteState, DeleteState, and the reads
cold_snapshots      new snapshots of share-partitions that are seldom written
forget_topics       removes states of topics that were deleted
share_coordinator   dispatch, start, stop
"""
