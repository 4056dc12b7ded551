"""What each topic setting is for, in one to three sentences; DescribeConfigs returns it."""

from collections.abc import Mapping

TOPIC_CONFIG_DOCUMENTATION: Mapping[str, str] = {
    "cleanup.policy": (
        'What happens to old data: "delete" drops whole segments past the retention time or size, "compact"'
        " keeps the last record of every key, both together do both. An empty list keeps everything for "
        "ever."
    ),
    "compression.gzip.level": (
        "How hard gzip tries when compression.type is gzip; -1 is gzip's own default."
    ),
    "compression.lz4.level": ("How hard lz4 tries when compression.type is lz4."),
    "compression.type": (
        'The compression in which batches are stored. "producer" stores them as they were sent; any other '
        "name makes the leader compress again what comes in differently."
    ),
    "compression.zstd.level": ("How hard zstd tries when compression.type is zstd."),
    "delete.retention.ms": (
        "How long a compacted topic keeps a tombstone after the cleaner has first passed over it. A reader "
        "that starts at the beginning must reach the end within this time to see every deletion."
    ),
    "errors.deadletterqueue.group.enable": (
        "Whether share groups may use this topic as their dead-letter queue."
    ),
    "file.delete.delay.ms": (
        "How long a file that is no longer part of the log stays on disk before it is unlinked."
    ),
    "flush.messages": (
        "Force the log to disk after this many records. Unset, the operating system decides and replication"
        " gives durability, which is faster."
    ),
    "flush.ms": (
        "Force the log to disk when a record has waited this long. It is looked at every "
        "log.flush.scheduler.interval.ms, which must be set too."
    ),
    "follower.replication.throttled.replicas": (
        "The replicas whose fetching from the leader is throttled, as PARTITION:BROKER pairs, or * for all."
    ),
    "index.interval.bytes": (
        "How many bytes of the log lie between two entries of its offset index. Less makes look-ups more "
        "exact and the index larger."
    ),
    "leader.replication.throttled.replicas": (
        "The replicas which a leader serves at a throttled rate, as PARTITION:BROKER pairs, or * for all."
    ),
    "local.retention.bytes": (
        "With tiered storage, how many bytes of a partition stay on the broker; -2 means retention.bytes."
    ),
    "local.retention.ms": (
        "With tiered storage, how long segments stay on the broker; -2 means retention.ms."
    ),
    "max.compaction.lag.ms": (
        "The longest time that a record of a compacted topic may wait for the cleaner, whatever the dirty "
        "ratio. It also rolls the active segment, which the cleaner never touches."
    ),
    "max.decompressed.message.bytes": (
        "The largest size that one record may have when the broker has to decompress it."
    ),
    "max.message.bytes": ("The largest record batch that is accepted, in bytes as sent, compressed or not."),
    "message.timestamp.after.max.ms": (
        "How far in the broker's future the timestamp of a record may lie; not looked at with LogAppendTime."
    ),
    "message.timestamp.before.max.ms": (
        "How far in the broker's past the timestamp of a record may lie; not looked at with LogAppendTime."
    ),
    "message.timestamp.type": (
        "Whether records carry the producer's time (CreateTime) or the time of their append (LogAppendTime)."
    ),
    "min.cleanable.dirty.ratio": (
        "The share of a compacted log that must be new since the last cleaning before it is cleaned again. "
        "Higher means fewer, cheaper cleanings and more space spent on old values."
    ),
    "min.compaction.lag.ms": ("The time during which a new record of a compacted topic is sure to stay."),
    "min.insync.replicas": (
        "How many replicas, the leader among them, must be in sync for a produce with acks=all to be "
        "accepted. With replication factor 3 the usual value is 2."
    ),
    "preallocate": ("Whether a new segment's file takes its full size on disk at once."),
    "remote.copy.lag.bytes": (
        "With tiered storage, how many newer bytes make a segment ready for upload; 0 at once, -1 derived "
        "from local.retention.bytes."
    ),
    "remote.copy.lag.ms": (
        "With tiered storage, the age that makes a segment ready for upload; 0 at once, -1 derived from "
        "local.retention.ms."
    ),
    "remote.log.copy.disable": (
        "With tiered storage, whether uploads are stopped and what is remote becomes read-only."
    ),
    "remote.log.delete.on.disable": (
        "With tiered storage, whether the remote data goes when remote.storage.enable turns false."
    ),
    "remote.storage.enable": (
        "Whether the topic uses tiered storage. This cluster has none, so only false is accepted."
    ),
    "retention.bytes": (
        "The size to which a partition may grow before its oldest segments go (policy delete); -1 is no "
        "limit. It counts for each partition by itself."
    ),
    "retention.ms": ("How long records are kept before their segment goes (policy delete); -1 is no limit."),
    "segment.bytes": (
        "The size of one log file. Retention and cleaning work on whole files, so smaller ones are finer "
        "grained."
    ),
    "segment.index.bytes": ("The size of an offset index; a segment is rolled when its index is full."),
    "segment.jitter.ms": (
        "The most by which the time of a roll is moved at random, so that not all partitions roll at once."
    ),
    "segment.ms": (
        "The age at which a segment is rolled although it is not full, so that retention can get at its data."
    ),
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may become leader when no other is left, at the price of "
        "records."
    ),
}
