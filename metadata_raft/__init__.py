"""metadata_raft: the cluster's metadata, decided by commands, kept as records, behind a quorum.

The map, bottom-up; a module imports only from lines above its own:

records                TopicRecord, PartitionRecord, ConfigRecord ... in Kafka's own schemas
record_codec           records and their batches as bytes
image                  MetadataImage: what brokers see, immutable
delta                  what records change: image, records -> next image
"""
