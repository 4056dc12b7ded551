"""ottla.groupcoord.share_state: the share coordinator of Kafka (KIP-932), as pure decisions over records.

The map, bottom-up; a module imports only from lines above its own, and of groupcoord nothing but
coordinator_effects, request_token, shard_bytes and log_scan:

share_state_words   what is asked about the state of share-partitions, and what is answered
"""
