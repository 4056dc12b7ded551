"""Families of this node's partitions, their logs and its log directories, by the names of Kafka's gauges."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ottla.logstore.volume import VolumeBytes
from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.log_care.log_scrub import LogScrub
from ottla.node.metrics.family import NO_LABELS, Family, counter, gauge, histogram, labels, summary_ms
from ottla.node.metrics.readings import LogDirReading, NodeReading, PartitionReading


def replica_manager_families(reading: NodeReading, partitions: Sequence[PartitionReading]) -> list[Family]:
    """Return kafka_server_replicamanager_*, counted over all partitions of this node."""
    prefix = "kafka_server_replicamanager"

    def count(name: str, words: str, is_one: Callable[[PartitionReading], bool]) -> Family:
        return gauge(f"{prefix}_{name}", words, sum(map(is_one, partitions)))

    return [
        gauge(f"{prefix}_partitioncount", "Replicas on this node.", len(partitions)),
        count("leadercount", "Partitions that this node leads.", lambda one: one.is_leader),
        count(
            "underreplicatedpartitions",
            "Partitions that this node leads with fewer replicas in sync than replicas.",
            lambda one: one.is_under_replicated,
        ),
        count(
            "underminisrpartitioncount",
            "Partitions that this node leads with fewer replicas in sync than min.insync.replicas.",
            lambda one: one.is_under_min_isr,
        ),
        count(
            "atminisrpartitioncount",
            "Partitions that this node leads with exactly min.insync.replicas replicas in sync.",
            lambda one: one.is_at_min_isr,
        ),
        count(
            "reassigningpartitions",
            "Partitions that this node leads whose replicas are being reassigned.",
            lambda one: one.is_reassigning,
        ),
        gauge(
            f"{prefix}_offlinereplicacount",
            "Replicas of this node in failed log directories.",
            reading.offline_replicas,
        ),
        gauge(
            f"{prefix}_produceridcount",
            "Producer ids known to the logs of this node.",
            sum(one.producer_id_count for one in partitions),
        ),
        counter(f"{prefix}_isrexpands_total", "Number of times that an ISR grew.", reading.isr_expands),
        counter(f"{prefix}_isrshrinks_total", "Number of times that an ISR shrank.", reading.isr_shrinks),
        counter(
            f"{prefix}_failedisrupdates_total",
            "ISR changes that the controller rejected.",
            reading.isr_update_failures,
        ),
        gauge(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Waiting requests, by kind.",
            [(labels(delayedOperation=kind), number) for kind, number in sorted(reading.waiting.items())],
        ),
    ]


def partition_families(partitions: Sequence[PartitionReading]) -> Iterator[Family]:
    """Yield kafka_log_log_* of each replica, and kafka_cluster_partition_* of those that this node leads."""
    named = [(labels(topic=one.topic, partition=one.partition), one) for one in partitions]
    led = [(text, one) for text, one in named if one.is_leader]

    def log(name: str, words: str, value: Callable[[PartitionReading], int]) -> Family:
        return gauge(f"kafka_log_log_{name}", words, ((text, value(one)) for text, one in named))

    def cluster(name: str, words: str, value: Callable[[PartitionReading], int]) -> Family:
        return gauge(f"kafka_cluster_partition_{name}", words, ((text, value(one)) for text, one in led))

    yield log("size", "Size of a log in bytes.", lambda one: one.size_bytes)
    yield log("logstartoffset", "The first offset of a log.", lambda one: one.log_start_offset)
    yield log("logendoffset", "The offset after the last record of a log.", lambda one: one.log_end_offset)
    yield log("numlogsegments", "Segments of a log.", lambda one: one.segment_count)
    yield cluster(
        "replicascount", "Replicas of a partition that this node leads.", lambda one: one.replica_count
    )
    yield cluster(
        "insyncreplicascount",
        "Replicas in sync of a partition that this node leads.",
        lambda one: one.in_sync_count,
    )
    yield cluster(
        "underreplicated",
        "1 if not all replicas of the partition are in sync.",
        lambda one: one.is_under_replicated,
    )
    yield cluster(
        "underminisr", "1 if too few replicas are in sync for acks=all.", lambda one: one.is_under_min_isr
    )
    yield cluster(
        "atminisr",
        "1 if the loss of one more in-sync replica would stop acks=all.",
        lambda one: one.is_at_min_isr,
    )
    yield cluster(
        "laststableoffsetlag",
        "Offsets between the last stable offset and the high watermark.",
        lambda one: one.high_watermark - one.last_stable_offset,
    )


def log_dir_families(
    directories: Sequence[LogDirReading],
    partitions: Sequence[PartitionReading],
    volumes: Mapping[str, VolumeBytes],
) -> list[Family]:
    """Return kafka_log_logmanager_*, kafka_log_logcleanermanager_*, and the size and free space of disks."""
    known = {path: one for path, one in volumes.items() if one.total >= 0}
    return [
        gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that have failed.",
            sum(not one.is_online for one in directories),
        ),
        gauge(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 if this log directory has failed.",
            [(labels(logDirectory=one.path), not one.is_online) for one in directories],
        ),
        gauge(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Compacted logs of this directory that cannot be cleaned, and therefore grow.",
            [(labels(logDirectory=one.path), len(one.uncleanable_sizes)) for one in directories],
        ),
        gauge(
            "kafka_log_logcleanermanager_uncleanable_bytes",
            "Bytes of the logs that cannot be cleaned.",
            [(labels(logDirectory=one.path), sum(one.uncleanable_sizes)) for one in directories],
        ),
        gauge(
            "ottla_log_bytes", "Bytes of all logs of this node.", sum(one.size_bytes for one in partitions)
        ),
        gauge(
            "ottla_log_directory_volume_bytes",
            "Size of the file system of a log directory.",
            [(labels(log_directory=path), one.total) for path, one in known.items()],
        ),
        gauge(
            "ottla_log_directory_free_bytes",
            "Free space of the file system of a log directory.",
            [(labels(log_directory=path), one.usable) for path, one in known.items()],
        ),
    ]


def damage_families(scrub: LogScrub) -> list[Family]:
    """Return ottla_log_damage_*: the damage that scrubbing found, and its repairs."""
    return [
        counter("ottla_log_damage_found_total", "Damaged log files found.", scrub.found),
        counter(
            "ottla_log_damage_repaired_total",
            "Damaged segments restored from another replica.",
            scrub.repaired,
        ),
        counter(
            "ottla_log_damage_indexes_rebuilt_total",
            "Damaged indexes rebuilt.",
            scrub.indexes_rebuilt,
        ),
        gauge("ottla_log_damage_unrepaired", "Log files that are damaged now.", scrub.unrepaired_count),
        gauge(
            "ottla_log_damage_replicas",
            "Replicas with damaged batches that are not repaired yet; they stay out of the "
            "ISR if another replica is in it.",
            scrub.damaged_replica_count,
        ),
    ]


def flush_families(flushes: LatencyHistogram, recent: Sequence[int]) -> list[Family]:
    """Return kafka_log_logflushstats_*: the time to make a log durable."""
    return [
        summary_ms(
            "kafka_log_logflushstats_logflushrateandtimems",
            "Duration of log flushes in ms; quantiles over the last minutes.",
            [(NO_LABELS, flushes, recent)],
        ),
        histogram(
            "ottla_log_flush_duration_seconds", "Duration of log flushes in seconds.", [(NO_LABELS, flushes)]
        ),
    ]
