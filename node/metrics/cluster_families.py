"""Families of the controller and the quorum; topics and brokers by the names of kafka_exporter and kminion.

Facts of the whole cluster are reported by one node, its controller, and facts of a partition by its leader.
So sums over all nodes are right, unlike those over Apache Kafka's controllers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from ottla.logstore.words.latency import LatencyHistogram, quantile
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.image import BrokerImage, MetadataImage, PartitionImage
from ottla.node.counters.election_counters import ElectionCounters
from ottla.node.metrics.family import (
    NO_LABELS,
    Family,
    LabelText,
    Row,
    counter,
    gauge,
    histogram,
    labels,
    with_labels,
)
from ottla.node.metrics.readings import PartitionReading, QuorumReading

CLUSTER_VERSION: Final = "4.3"  # of Apache Kafka, whose protocol the cluster speaks


class ClusterCounts(NamedTuple):
    """The numbers that a controller counts over all partitions."""

    partitions: int
    offline: int  # without a leader
    imbalanced: int  # not led by their first replica
    under_replicated: int


def count_cluster(image: MetadataImage) -> ClusterCounts:
    """Count the partitions of an image, at some 0.5 us each; an image never changes."""
    partitions = offline = imbalanced = under_replicated = 0
    for topic in image.topics.by_name.values():
        for one in topic.partitions:
            partitions += 1
            offline += not one.has_leader
            imbalanced += bool(one.replicas) and one.leader != one.replicas[0]
            under_replicated += len(one.isr) < len(one.replicas) - len(one.adding_replicas)
    return ClusterCounts(partitions, offline, imbalanced, under_replicated)


def controller_families(
    image: MetadataImage, counts: ClusterCounts, elections: ElectionCounters, *, is_controller: bool
) -> list[Family]:
    """Return kafka_controller_*: numbers of the active controller, 0 on all other nodes."""
    prefix = "kafka_controller_kafkacontroller"

    def active(name: str, words: str, value: int) -> Family:
        return gauge(
            f"{prefix}_{name}",
            f"{words}, as the controller sees it; 0 elsewhere.",
            value if is_controller else 0,
        )

    brokers = image.brokers.values()
    return [
        gauge(f"{prefix}_activecontrollercount", "1 if this node is the controller.", is_controller),
        active("offlinepartitionscount", "Partitions without a leader", counts.offline),
        active("globaltopiccount", "Topics", len(image.topics.by_name)),
        active("globalpartitioncount", "Partitions", counts.partitions),
        active(
            "preferredreplicaimbalancecount", "Partitions not led by their first replica", counts.imbalanced
        ),
        active("activebrokercount", "Brokers that are not fenced", sum(not one.fenced for one in brokers)),
        active("fencedbrokercount", "Brokers that are fenced", sum(one.fenced for one in brokers)),
        counter(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            "Unclean leader elections (leaders elected from outside the ISR) while this node "
            "was the controller.",
            elections.unclean,
        ),
        counter(
            "ottla_leader_elections_total",
            "Changes of partition leaders while this node was the controller.",
            elections.elections,
        ),
    ]


class QuorumRates(NamedTuple):
    """The rates since an earlier reading."""

    appended_per_second: float


def raft_families(
    quorum: QuorumReading,
    rates: QuorumRates,
    commits: LatencyHistogram,
    recent_commits: Sequence[int],
    syncs: LatencyHistogram,
    *,
    now_ms: int,
) -> list[Family]:
    """Return kafka_server_raftmetrics_* and kafka_server_brokermetadatametrics_*."""
    prefix = "kafka_server_raftmetrics"
    is_leader = quorum.state == "leader"
    made, total = sum(recent_commits), sum(commits.counts)
    values: Sequence[tuple[str, str, float]] = (
        ("current_leader", "The leader of the metadata quorum, -1 if none is known.", quorum.leader_id),
        ("current_epoch", "The current epoch of the metadata quorum.", quorum.epoch),
        (
            "current_vote",
            "The node that this voter voted for in the current epoch, -1 for none.",
            quorum.voted_id,
        ),
        ("high_watermark", "The offset after the last committed metadata record.", quorum.high_watermark),
        ("log_end_offset", "The offset after the last metadata record of this node.", quorum.log_end_offset),
        (
            "log_end_epoch",
            "The current epoch of the metadata quorum, in which its leader appends records.",
            quorum.epoch,
        ),
        ("number_of_voters", "The number of voters of the metadata quorum.", quorum.voter_count),
        ("number_of_observers", "The number of running brokers that are not voters.", quorum.observer_count),
        (
            "append_records_rate",
            "Metadata records per second that this node appended as the leader.",
            rates.appended_per_second if is_leader else 0.0,
        ),
        (
            "fetch_records_rate",
            "Metadata records per second that this node fetched from the leader.",
            0.0 if is_leader else rates.appended_per_second,
        ),
        (
            "commit_latency_avg",
            "Average time in ms until a change by this leader was on a majority of disks.",
            commits.sum_s / total * 1000 if total else 0.0,
        ),
        (
            "commit_latency_max",
            "Maximum of that time over the last minutes, in ms, rounded up to a histogram bucket.",
            quantile(recent_commits, 1.0) * 1000 if made else 0.0,
        ),
    )
    return [
        *(gauge(f"{prefix}_{name}", words, value) for name, words, value in values),
        gauge(
            "ottla_quorum_cut_off_seconds",
            "Seconds since a leader of the metadata quorum last answered this node, if the node is cut "
            "off; else 0.",
            0.0 if quorum.cut_off_since_ms is None else max(0, now_ms - quorum.cut_off_since_ms) / 1000,
        ),
        gauge(
            f"{prefix}_current_state",
            "1 for the current role of this node in the metadata quorum.",
            [(labels(current_state=quorum.state), 1)],
        ),
        gauge(
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
            "The offset of the last metadata record that this broker has applied.",
            quorum.applied_offset,
        ),
        gauge(
            "kafka_server_brokermetadatametrics_last_applied_record_timestamp",
            "The timestamp of the last applied metadata record, in ms since 1970.",
            quorum.applied_timestamp_ms,
        ),
        gauge(
            "kafka_server_brokermetadatametrics_last_applied_record_lag_ms",
            "Milliseconds since the timestamp of the last applied metadata record.",
            max(0, now_ms - quorum.applied_timestamp_ms) if quorum.applied_timestamp_ms > 0 else 0,
        ),
        histogram(
            "ottla_metadata_sync_duration_seconds",
            "Duration of syncs of the metadata log to disk, in seconds.",
            [(NO_LABELS, syncs)],
        ),
        histogram(
            "ottla_metadata_commit_duration_seconds",
            "Time until a change by this leader was on a majority of disks, in seconds.",
            [(NO_LABELS, commits)],
        ),
    ]


# ---- kafka_exporter ------------------------------------------------------------------------------


def exporter_families(
    image: MetadataImage, partitions: Sequence[PartitionReading], *, is_controller: bool, max_partitions: int
) -> Iterator[Family]:
    """Yield kafka_brokers, kafka_broker_info and kafka_topic_*.

    Leaders report partitions; the controller reports the rest, and partitions without a leader.
    """
    led = [(labels(topic=one.topic, partition=one.partition), one) for one in partitions if one.is_leader]
    lost = _leaderless(image, max_partitions) if is_controller else []
    topics = islice(image.topics.by_name.values(), max_partitions) if is_controller else ()

    def both(
        name: str,
        words: str,
        of_led: Callable[[PartitionReading], int],
        of_lost: Callable[[PartitionImage], int] | None,
    ) -> Family:
        rows: Iterable[Row] = ((text, of_led(one)) for text, one in led)
        if of_lost is not None:
            rows = chain(rows, ((text, of_lost(one)) for text, one in lost))
        return gauge(f"kafka_topic_partition_{name}", words, rows)

    yield gauge(
        "kafka_brokers",
        "Brokers of the cluster that are not fenced; reported by the controller only.",
        [(NO_LABELS, sum(not one.fenced for one in image.brokers.values()))] if is_controller else [],
    )
    yield gauge(
        "kafka_broker_info",
        "1 for each broker; reported by the controller only.",
        [
            (labels(id=one.broker_id, address=_address(one)), 1)
            for one in image.brokers.values()
            if is_controller
        ],
    )
    yield gauge(
        "kafka_topic_partitions",
        "Partitions of a topic; reported by the controller only.",
        ((labels(topic=topic.name), len(topic.partitions)) for topic in topics),
    )
    yield both("current_offset", "The high watermark of a partition.", lambda one: one.high_watermark, None)
    yield both("oldest_offset", "The first offset of a partition.", lambda one: one.log_start_offset, None)
    yield both(
        "leader", "The leader of a partition, -1 for none.", lambda one: one.leader_id, lambda one: one.leader
    )
    yield both("replicas", "Replicas.", lambda one: one.replica_count, lambda one: len(one.replicas))
    yield both(
        "in_sync_replica",
        "Replicas of a partition that are in sync.",
        lambda one: one.in_sync_count,
        lambda one: len(one.isr),
    )
    yield both(
        "leader_is_preferred",
        "1 if the partition is led by its preferred leader.",
        lambda one: one.is_preferred,
        lambda one: 0,
    )
    yield both(
        "under_replicated_partition",
        "1 if not all replicas of the partition are in sync.",
        lambda one: one.is_under_replicated,
        lambda one: len(one.isr) < len(one.replicas),
    )


def _leaderless(image: MetadataImage, most: int) -> list[tuple[LabelText, PartitionImage]]:
    lost = (
        (labels(topic=topic.name, partition=one.partition), one)
        for topic in image.topics.by_name.values()
        for one in topic.partitions
        if not one.has_leader
    )
    return list(islice(lost, most))


def _address(broker: BrokerImage) -> str:
    endpoint = next(iter(broker.listeners.values()), None)
    return "" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


# ---- kminion -------------------------------------------------------------------------------------


def kminion_families(
    image: MetadataImage,
    partitions: Sequence[PartitionReading],
    shown: Sequence[PartitionReading],
    cleanup_policy: Callable[[str], str],
    *,
    node_id: int,
    controller_id: int,
    is_controller: bool,
    max_partitions: int,
) -> Iterator[Family]:
    """Yield kminion_kafka_* of the cluster, its brokers, topics and log directories.

    Sums are over all of `partitions`; those in `shown` have samples of their own, and so have
    `max_partitions` topics.
    """
    low: dict[str, int] = defaultdict(int)
    high: dict[str, int] = defaultdict(int)
    size: dict[str, int] = defaultdict(int)
    for one in partitions:
        size[one.topic] += one.size_bytes
        if not one.is_leader:
            continue
        low[one.topic] += one.log_start_offset
        high[one.topic] += one.high_watermark
    marked = [
        (labels(topic_name=one.topic, partition_id=one.partition), one) for one in shown if one.is_leader
    ]

    def marks(name: str, words: str, value: Callable[[PartitionReading], int]) -> Family:
        return gauge(
            f"kminion_kafka_topic_partition_{name}",
            words,
            ((text, value(one)) for text, one in marked),
        )

    def by_topic(name: str, words: str, values: Mapping[str, int]) -> Family:
        rows = ((labels(topic_name=topic), value) for topic, value in islice(values.items(), max_partitions))
        return gauge(f"kminion_kafka_topic_{name}", words, rows)

    own = image.brokers.get(node_id)
    topics = islice(image.topics.by_name.values(), max_partitions) if is_controller else ()
    cluster = labels(
        broker_count=len(image.brokers),
        cluster_id=uuid_to_text(image.cluster_id),
        cluster_version=CLUSTER_VERSION,
        controller_id=controller_id,
    )
    yield gauge(
        "kminion_kafka_cluster_info",
        "1 with information about the cluster; reported by the controller only.",
        [(cluster, 1)] if is_controller else [],
    )
    yield gauge(
        "kminion_kafka_broker_info",
        "1 for each broker; reported by the controller only.",
        [
            (with_labels(_kminion_broker(one), is_controller=str(one.broker_id == controller_id).lower()), 1)
            for one in image.brokers.values()
            if is_controller
        ],
    )
    yield gauge(
        "kminion_kafka_topic_info",
        "1 for each topic; reported by the controller only.",
        (
            (
                labels(
                    topic_name=topic.name,
                    partition_count=len(topic.partitions),
                    replication_factor=len(topic.partitions[0].replicas),
                    cleanup_policy=cleanup_policy(topic.name),
                ),
                1,
            )
            for topic in topics
        ),
    )
    yield marks("low_water_mark", "The first offset of a partition.", lambda one: one.log_start_offset)
    yield marks("high_water_mark", "The high watermark of a partition.", lambda one: one.high_watermark)
    yield by_topic(
        "low_water_mark_sum", "Sum of the first offsets of the partitions that this node leads.", low
    )
    yield by_topic(
        "high_water_mark_sum", "Sum of the high watermarks of the partitions that this node leads.", high
    )
    yield by_topic("log_dir_size_total_bytes", "Bytes of the replicas on this node.", size)
    yield gauge(
        "kminion_kafka_broker_log_dir_size_total_bytes",
        "Bytes of all logs of this broker.",
        [] if own is None else [(_kminion_broker(own), sum(size.values()))],
    )


def _kminion_broker(broker: BrokerImage) -> LabelText:
    host, _, port = _address(broker).rpartition(":")
    return labels(broker_id=broker.broker_id, address=host, port=port, rack_id=broker.rack or "")
