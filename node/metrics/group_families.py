"""Families of the coordinators, and of their groups by the names of kafka_exporter and kminion."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.node.metrics.family import (
    NO_LABELS,
    Family,
    Row,
    counter,
    gauge,
    labels,
    summary_ms,
    with_labels,
)
from ottla.node.metrics.readings import (
    CommittedReading,
    CoordinatorReading,
    GroupReading,
    NodeReading,
)

_NAMES: Final = {
    "numgroupsstable": "Stable",
    "numgroupspreparingrebalance": "PreparingRebalance",
    "numgroupscompletingrebalance": "CompletingRebalance",
    "numgroupsempty": "Empty",
    "numgroupsdead": "Dead",
}


def coordinator_families(
    groups: Sequence[GroupReading], reading: NodeReading, *, shows_all: bool
) -> list[Family]:
    """Return the numbers of groups, transactional ids and share-partitions that this node coordinates."""
    classic = Counter(one.state for one in groups if one.protocol == "classic")
    consumer = Counter(one.state for one in groups if one.protocol == "consumer")
    share = Counter(one.state for one in groups if one.protocol == "share")
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    return [
        gauge(f"{prefix}_numgroups", "Groups that this node coordinates.", len(groups)),
        *(
            gauge(f"{prefix}_{name}", f"Classic groups in {state}.", classic[state])
            for name, state in _NAMES.items()
        ),
        gauge(
            "kafka_server_group_coordinator_metrics_group_count",
            "Groups by protocol.",
            [
                (labels(protocol="classic"), classic.total()),
                (labels(protocol="consumer"), consumer.total()),
                (labels(protocol="share"), share.total()),
            ],
        ),
        gauge(
            "kafka_server_group_coordinator_metrics_consumer_group_count",
            "Groups of the consumer protocol by state.",
            [
                (labels(state=state.lower()), consumer[state])
                for state in ("Empty", "Assigning", "Reconciling", "Stable")
            ],
        ),
        gauge(
            "kafka_server_group_coordinator_metrics_share_group_count",
            "Share groups by state.",
            [(labels(state=state.lower()), share[state]) for state in ("Empty", "Stable", "Dead")],
        ),
        counter(
            "kafka_server_group_coordinator_metrics_share_group_rebalance_total",
            "Rebalances of share groups, after changes of members, topics or partitions.",
            reading.share_rebalances,
        ),
        *(family for one in reading.coordinators for family in _shard_families(one)),
        gauge(
            "kafka_server_share_coordinator_metrics_last_pruned_offset",
            "The offset before which the log of the share coordinator was deleted.",
            [
                (labels(topic=SHARE_STATE_TOPIC, partition=index), offset)
                for index, offset in reading.share_pruned_offsets
                if shows_all
            ],
        ),
        counter(
            "kafka_server_share_coordinator_metrics_write_total",
            "Share-partition states written.",
            reading.share_writes.writes,
        ),
        summary_ms(
            "kafka_server_share_coordinator_metrics_write_latency",
            "Time from a request to write states until its records are committed, in ms.",
            [(NO_LABELS, reading.share_writes.write_times, list(reading.share_writes.write_times.counts))],
        ),
        gauge(
            "ottla_transactional_ids",
            "Transactional ids coordinated by this node: all, with an open transaction, and "
            "with markers still to be written.",
            [
                (labels(state="all"), reading.transactional_ids),
                (labels(state="ongoing"), reading.open_transactions),
                (labels(state="completing"), reading.completing_transactions),
            ],
        ),
        gauge(
            "ottla_share_partition_states",
            "Share-partitions whose state this node keeps as their coordinator.",
            [(NO_LABELS, reading.share_partition_states)],
        ),
    ]


def _shard_families(reading: CoordinatorReading) -> list[Family]:
    """Return the number of a coordinator's partitions on this node, and the times to load them."""
    prefix = f"kafka_server_{reading.name}_coordinator_metrics"
    return [
        gauge(
            f"{prefix}_num_partitions",
            f"Partitions of the log of the {reading.name} coordinator that this node leads, by state.",
            [
                (labels(state="loading"), reading.shards.loading),
                (labels(state="active"), reading.shards.active),
                (labels(state="failed"), reading.shards.failed),
            ],
        ),
        summary_ms(
            f"{prefix}_partition_load_time",
            f"Time to load a partition of the log of the {reading.name} coordinator, in ms.",
            [(NO_LABELS, reading.load_times, list(reading.load_times.counts))],
        ),
    ]


def consumer_group_families(
    groups: Sequence[GroupReading], shares: Sequence[GroupReading] = ()
) -> list[Family]:
    """Return kafka_consumergroup_*, with the lag in seconds added; `shares` has share groups' offsets."""
    prefix = "kafka_consumergroup"
    offsets: list[Row] = []
    offset_sums: list[Row] = []
    lags: list[Row] = []
    lag_sums: list[Row] = []
    lag_seconds: list[Row] = []
    for group in (*groups, *shares):
        for topic, rows in _by_topic(group).items():
            of_topic = labels(consumergroup=group.group_id, topic=topic)
            offset_sums.append((of_topic, sum(one.offset for one in rows)))
            known = [one.lag for one in rows if one.lag is not None]
            if known:
                lag_sums.append((of_topic, sum(known)))
            for one in rows:
                place = with_labels(of_topic, partition=one.partition)
                offsets.append((place, one.offset))
                if one.lag is not None:
                    lags.append((place, one.lag))
                if one.lag_ms is not None:
                    lag_seconds.append((place, one.lag_ms / 1000))
    return [
        gauge(
            f"{prefix}_members",
            "Members of a group.",
            [(labels(consumergroup=one.group_id), one.member_count) for one in groups],
        ),
        gauge(f"{prefix}_current_offset", "The committed offset of a group in a partition.", offsets),
        gauge(
            f"{prefix}_current_offset_sum",
            "The sum of the committed offsets of a group in a topic.",
            offset_sums,
        ),
        gauge(f"{prefix}_lag", "Lag of a group in a partition, in records.", lags),
        gauge(f"{prefix}_lag_sum", "Lag of a group in a topic, in records.", lag_sums),
        gauge(
            f"{prefix}_lag_seconds",
            "Age of the oldest record that a group has not committed, in seconds.",
            lag_seconds,
        ),
    ]


def kminion_group_families(
    groups: Sequence[GroupReading], node_id: int, shares: Sequence[GroupReading] = ()
) -> list[Family]:
    """Return kminion_kafka_consumer_group_*; `shares` has share groups' offsets."""
    prefix = "kminion_kafka_consumer_group"
    sums: list[Row] = []
    topic_lags: list[Row] = []
    lags: list[Row] = []
    for group in (*groups, *shares):
        for topic, rows in _by_topic(group).items():
            of_topic = labels(group_id=group.group_id, topic_name=topic)
            sums.append((of_topic, sum(one.offset for one in rows)))
            known = [one for one in rows if one.lag is not None]
            if known:
                topic_lags.append((of_topic, sum(one.lag or 0 for one in known)))
            lags += [(with_labels(of_topic, partition_id=one.partition), one.lag or 0) for one in known]
    return [
        gauge(
            f"{prefix}_info",
            "1 if the group is stable, else 0.",
            [
                (
                    labels(
                        group_id=one.group_id,
                        member_count=one.member_count,
                        protocol=one.protocol_name,
                        protocol_type=one.protocol_type,
                        state=one.state,
                        coordinator_id=node_id,
                    ),
                    one.state == "Stable",
                )
                for one in groups
            ],
        ),
        gauge(
            f"{prefix}_members",
            "Members of a group.",
            [(labels(group_id=one.group_id), one.member_count) for one in groups],
        ),
        gauge(f"{prefix}_topic_offset_sum", "The sum of the committed offsets of a group in a topic.", sums),
        gauge(f"{prefix}_topic_lag", "Lag of a group in a topic, in records.", topic_lags),
        gauge(f"{prefix}_topic_partition_lag", "Lag of a group in a partition, in records.", lags),
    ]


def _by_topic(group: GroupReading) -> dict[str, list[CommittedReading]]:
    topics: dict[str, list[CommittedReading]] = defaultdict(list)
    for one in group.committed:
        topics[one.topic].append(one)
    return topics
