"""Families of share groups on the leaders of partitions, by the names of Kafka's meters."""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.node.metrics.family import NO_LABELS, Family, counter, gauge, labels, summary_ms
from ottla.node.metrics.readings import ShareReading

# By the number of the acknowledge type.
_ACKNOWLEDGE_TYPES: Final = ("Gap", "Accept", "Release", "Reject", "Renew")


def share_families(reading: ShareReading) -> Iterator[Family]:
    """Yield kafka_server_sharegroupmetrics_*, _sharesessioncache_*, and _sharepartitionmetrics_*.

    The last ones have samples of each share-partition.
    """
    counters = reading.counters
    yield counter(
        "kafka_server_sharegroupmetrics_recordacknowledgements_total",
        "Records acknowledged by members of share groups, by the type of the acknowledgement.",
        [
            (labels(ackType=kind), count)
            for kind, count in zip(_ACKNOWLEDGE_TYPES, counters.acknowledged, strict=True)
        ],
    )
    yield summary_ms(
        "kafka_server_sharegroupmetrics_partitionloadtimems",
        "Time to read the state of a share-partition, in ms.",
        [(NO_LABELS, counters.load_times, list(counters.load_times.counts))],
    )
    yield gauge(
        "kafka_server_sharesessioncache_sharesessionscount",
        "Share sessions on this node.",
        reading.session_count,
    )
    yield gauge(
        "kafka_server_sharesessioncache_sharepartitionscount",
        "Partitions in share sessions on this node.",
        reading.session_partition_count,
    )
    yield counter(
        "kafka_server_sharesessioncache_sharesessionevictions_total",
        "Share sessions that ended with their connection.",
        reading.evictions,
    )
    yield counter(
        "kafka_server_delayedsharefetchmetrics_expires_total",
        "Share fetches that waited for all of their maximum wait time.",
        counters.expired_fetches,
    )
    letters = [(labels(group=group), one) for group, one in list(counters.dead_letters.items())]
    prefix = "kafka_server_sharegroupmetrics_deadletterqueue"
    yield counter(
        f"{prefix}recordcount_total",
        "Dead letters written for a share group; groups beyond the first thousand share the empty name.",
        [(text, one.records) for text, one in letters],
    )
    yield counter(
        f"{prefix}totalproducerequests_total",
        "Attempts to write dead letters of a share group.",
        [(text, one.produces) for text, one in letters],
    )
    yield counter(
        f"{prefix}failedproducerequests_total",
        "Batches of dead letters of a share group that could not be written, so their records have none.",
        [(text, one.failed_produces) for text, one in letters],
    )
    yield counter(
        "ottla_share_group_omitted_dead_letters_total",
        "Records of a share group that were archived without the dead letters that its settings require, "
        "because share.version is below 2.",
        [(text, one.ignored) for text, one in letters],
    )
    yield from _partition_families(reading)


def _partition_families(reading: ShareReading) -> Iterator[Family]:
    prefix = "kafka_server_sharepartitionmetrics"
    named = [
        (labels(group=one.group, topic=one.topic, partition=one.partition), one) for one in reading.partitions
    ]
    yield gauge(
        f"{prefix}_inflightmessagecount",
        "Records of a share-partition that are in flight.",
        [(text, one.in_flight_count) for text, one in named],
    )
    yield gauge(
        f"{prefix}_inflightbatchcount",
        "Batches of records of a share-partition that are in flight.",
        [(text, one.in_flight_batch_count) for text, one in named],
    )
    timeouts: Sequence[tuple[str, float]] = [(text, one.lock_timeouts) for text, one in named]
    yield counter(
        f"{prefix}_acquisitionlocktimeout_total",
        "Records of a share-partition whose acquisition lock ended before a member acknowledged them.",
        timeouts,
    )
    yield gauge(
        "ottla_share_partition_stalled_seconds",
        "Time for which the oldest record in flight of a share-partition has been the same, in seconds.",
        [(text, one.stalled_ms / 1000) for text, one in named],
    )
