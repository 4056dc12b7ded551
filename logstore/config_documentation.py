"""The documentation of each topic setting, in one to three sentences, as DescribeConfigs returns it."""

from collections.abc import Mapping

TOPIC_CONFIG_DOCUMENTATION: Mapping[str, str] = {
    "cleanup.policy": (
        'What to do with old records: "delete" removes segments past the retention time or '
        'size, "compact" keeps the latest record of each key, and both can be combined. An '
        "empty list keeps all records forever."
    ),
    "compression.gzip.level": (
        "The compression level of gzip, if compression.type is gzip; -1 is gzip's own default."
    ),
    "compression.lz4.level": ("The compression level of lz4, if compression.type is lz4."),
    "compression.type": (
        'The compression of stored batches. "producer" keeps the compression that the producer '
        "chose; with any other value the leader recompresses batches that arrive in a different "
        "one."
    ),
    "compression.zstd.level": ("The compression level of zstd, if compression.type is zstd."),
    "delete.retention.ms": (
        "How long to keep the tombstones of a compacted topic after the cleaner has first "
        "processed them. A consumer that starts at the beginning must reach the end within this "
        "time to see every deletion."
    ),
    "errors.deadletterqueue.group.enable": (
        "Whether share groups may use this topic as their dead-letter queue."
    ),
    "file.delete.delay.ms": ("How long to keep a deleted file on disk before removing it."),
    "flush.messages": (
        "Flush the log to disk after this many records. If not set, flushing is left to the "
        "operating system, and durability comes from replication, which is faster."
    ),
    "flush.ms": (
        "Flush the log to disk when a record has been in memory for this long. This is checked "
        "every log.flush.scheduler.interval.ms, which must be set too."
    ),
    "follower.replication.throttled.replicas": (
        "The replicas whose fetches from the leader are throttled, as PARTITION:BROKER pairs, or * for all."
    ),
    "index.interval.bytes": (
        "The number of bytes of the log between two entries of its offset index. A lower value "
        "makes lookups more exact and the index larger."
    ),
    "leader.replication.throttled.replicas": (
        "The replicas that the leader serves at a throttled rate, as PARTITION:BROKER pairs, or * for all."
    ),
    "local.retention.bytes": (
        "With tiered storage: the bytes of a partition to keep on the broker; -2 uses retention.bytes."
    ),
    "local.retention.ms": (
        "With tiered storage: how long to keep segments on the broker; -2 uses retention.ms."
    ),
    "max.compaction.lag.ms": (
        "The maximum time that a record of a compacted topic can stay uncompacted, whatever the "
        "dirty ratio. The active segment, which is never compacted, is rolled after this time, "
        "too."
    ),
    "max.decompressed.message.bytes": (
        "The maximum size of a record batch after the broker has decompressed it, in bytes."
    ),
    "max.message.bytes": (
        "The maximum size of a record batch, in bytes as sent (after compression, if any)."
    ),
    "message.timestamp.after.max.ms": (
        "The maximum time by which the timestamp of a record may be ahead of the broker's clock; ignored "
        "with message.timestamp.type=LogAppendTime."
    ),
    "message.timestamp.before.max.ms": (
        "The maximum time by which the timestamp of a record may be behind the broker's clock; ignored "
        "with message.timestamp.type=LogAppendTime."
    ),
    "message.timestamp.type": (
        "Whether the timestamp of a record is the time set by the producer (CreateTime) or "
        "the time of the append (LogAppendTime)."
    ),
    "min.cleanable.dirty.ratio": (
        "The share of a compacted log that must be new since the last cleaning before it is "
        "cleaned again. A higher value means fewer cleanings and more space used by old values."
    ),
    "min.compaction.lag.ms": ("The minimum time that a new record of a compacted topic stays uncompacted."),
    "min.insync.replicas": (
        "The minimum number of replicas in sync, including the leader, for a produce request "
        "with acks=all to be accepted. With a replication factor of 3, the usual value is 2."
    ),
    "ottla.delivery.delay.enable": (
        "Whether to delay the delivery of records to share groups: by the header ottla.deliver.at or "
        "ottla.deliver.after.ms of a record, or else by ottla.delivery.delay.ms. Consumer groups see every "
        "record at once."
    ),
    "ottla.delivery.delay.max.ms": (
        "The maximum time between the arrival of a record and its delivery; a record with a longer delay is "
        "rejected with INVALID_TIMESTAMP. Records that retention deletes before they are due are never "
        "delivered, so retention.ms should be larger."
    ),
    "ottla.delivery.delay.max.records": (
        "The maximum number of records of a partition that may wait to be due in a share group. Records "
        "behind them are not delivered until some of them are due. Each takes some 20 bytes of memory at the "
        "leader."
    ),
    "ottla.delivery.delay.ms": (
        "The time between the timestamp of a record and its delivery, if its headers set no other."
    ),
    "preallocate": ("Reserve the full size of a new segment file on disk when it is created."),
    "remote.copy.lag.bytes": (
        "With tiered storage: the number of newer bytes that make a segment eligible for upload; 0 "
        "uploads at once, -1 derives it from local.retention.bytes."
    ),
    "remote.copy.lag.ms": (
        "With tiered storage: the age that makes a segment eligible for upload; 0 uploads at "
        "once, -1 derives it from local.retention.ms."
    ),
    "remote.log.copy.disable": ("With tiered storage: stop uploads and make the remote data read-only."),
    "remote.log.delete.on.disable": (
        "With tiered storage: delete the remote data when remote.storage.enable is set to false."
    ),
    "remote.storage.enable": (
        "Whether the topic uses tiered storage. It is not supported, so only false is accepted."
    ),
    "retention.bytes": (
        "The size that a partition may reach before its oldest segments are deleted "
        "(cleanup.policy=delete); -1 means no limit. The limit applies to each partition "
        "separately."
    ),
    "retention.ms": (
        "How long records are kept before their segment is deleted (cleanup.policy=delete); -1 "
        "means no limit."
    ),
    "segment.bytes": (
        "The size of one log file. Retention and compaction work on whole files, so smaller "
        "segments make them more fine-grained."
    ),
    "segment.index.bytes": (
        "The maximum size of an index of a segment, in bytes; a segment is rolled when one of them is full."
    ),
    "segment.jitter.ms": (
        "The maximum random time by which a segment is rolled before segment.ms, which keeps all partitions "
        "from rolling at once."
    ),
    "segment.ms": (
        "The age at which a segment is rolled even if it is not full, so that retention and "
        "compaction can process its records."
    ),
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may become leader if no other one is available, "
        "at the risk of losing records."
    ),
}
