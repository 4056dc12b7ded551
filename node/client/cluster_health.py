"""The health of a cluster: its brokers, and the partitions that have a problem."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import cluster_admin, topic_admin
from ottla.node.client.cluster_client import Client
from ottla.node.client.quorum_silence import cut_off_sentence
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.node.wire.messages.metadata import MetadataResponseTopic

MIN_ISR: Final = "min.insync.replicas"
# The response has a result for each topic, and is decoded in one turn.
TOPICS_PER_REQUEST: Final = 500


class PartitionState(NamedTuple):
    """The metadata of a partition; `coming` are the replicas that a reassignment adds."""

    partition: TopicPartition
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]
    coming: Sequence[int] = ()

    @property
    def is_under_replicated(self) -> bool:
        """Return True if too few replicas are in sync; as in Apache Kafka, new replicas are not missing."""
        return len(self.isr) < len(set(self.replicas) - set(self.coming))


class Health(NamedTuple):
    """The partitions with each kind of problem, sorted; a partition may have several.

    `sharing_racks` alone does not make a cluster unhealthy.
    """

    controller_id: int
    brokers: Sequence[DescribeClusterBroker]
    topics: int
    partitions: int
    leaderless: Sequence[TopicPartition]  # Kafka's OfflinePartitionsCount
    under_replicated: Sequence[TopicPartition]
    under_min_isr: Sequence[TopicPartition]  # writes with acks=all are rejected
    offline: Sequence[TopicPartition]  # a replica is on a broker or a directory that is down
    unclean: Sequence[TopicPartition]  # only an unclean election could give them a leader now
    replicas: Mapping[int, int]  # by broker, as the next two
    in_sync: Mapping[int, int]
    leads: Mapping[int, int]
    cut_off_since_ms: int | None = None  # of the node that answered: the whole report is as old as that
    sharing_racks: Sequence[TopicPartition] = ()  # in fewer racks than they could be
    # The brokers that a partition with a problem lacks.
    lacking: Mapping[TopicPartition, Set[int]] = MappingProxyType({})

    def lacks_only(self, partition: TopicPartition, brokers: Iterable[int]) -> bool:
        """Return True if the partition lacks brokers, and all of them are among these."""
        lacking = self.lacking.get(partition, frozenset())
        return bool(lacking) and lacking <= set(brokers)

    @property
    def is_healthy(self) -> bool:
        """Return True if a controller is known, no broker is fenced, and the metadata is current.

        Besides, no partition may be leaderless, under-replicated, under min.insync.replicas or in need of an
        unclean election, or have an offline replica.
        """
        return self.reason is None

    @property
    def reason(self) -> str | None:
        """Return the reason why the cluster is not healthy, in a sentence; None if it is."""
        if self.cut_off_since_ms is not None:
            return cut_off_sentence(self.cut_off_since_ms)
        counts = [
            (self.leaderless, "without a leader"),
            (self.offline, "with an offline replica"),
            (self.under_min_isr, "under min.insync.replicas"),
            (self.under_replicated, "under-replicated"),
            (self.unclean, "without a live replica in sync"),
        ]
        found = ["no controller is known"] if self.controller_id < 0 else []
        fenced = [str(one.broker_id) for one in self.brokers if one.is_fenced]
        if fenced:
            found.append(f"not running: broker{'s' * (len(fenced) > 1)} {', '.join(fenced)}")
        found += [f"{_partitions(len(some))} {words}" for some, words in counts if some]
        if not found:
            return None
        sentence = "; ".join(found)
        return f"{sentence[0].upper()}{sentence[1:]}."


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def assess(
    controller_id: int,
    brokers: Sequence[DescribeClusterBroker],
    partitions: Iterable[PartitionState],
    min_isr: Mapping[str, int],
    *,
    cut_off_since_ms: int | None = None,
) -> Health:
    """Sort partitions by their problems. `min_isr` is by topic; a missing topic counts as 1."""
    alive = {one.broker_id for one in brokers if not one.is_fenced}
    states = sorted(partitions)
    return Health(
        controller_id,
        sorted(brokers, key=lambda one: one.broker_id),
        len({one.partition.topic for one in states}),
        len(states),
        [one.partition for one in states if one.leader < 0],
        [one.partition for one in states if one.is_under_replicated],
        # As in Apache Kafka, a topic needs no more replicas in sync than it has.
        [
            one.partition
            for one in states
            if len(one.isr) < min(min_isr.get(one.partition.topic, 1), len(one.replicas))
        ],
        [one.partition for one in states if one.offline],
        [one.partition for one in states if _needs_unclean_election(one, alive)],
        Counter(broker for one in states for broker in one.replicas),
        Counter(broker for one in states for broker in one.isr),
        Counter(one.leader for one in states),
        cut_off_since_ms,
        _share_racks(states, {one.broker_id: one.rack for one in brokers}),
        {one.partition: lacking for one in states if (lacking := _lacking(one))},
    )


def _lacking(one: PartitionState) -> frozenset[int]:
    """Return the brokers that a partition misses; if it has no leader, those that could lead it."""
    if one.leader < 0:
        return frozenset(one.isr or one.offline)  # Metadata responses lack the eligible leader replicas
    return frozenset(one.replicas) - frozenset(one.isr) - frozenset(one.coming)


def _share_racks(states: Sequence[PartitionState], racks: Mapping[int, str | None]) -> list[TopicPartition]:
    """Return the partitions that are in fewer racks than possible; none unless each broker has a rack."""
    if not all(racks.values()):
        return []
    most = len(set(racks.values()))
    return [
        one.partition
        for one in states
        if len({racks.get(broker) for broker in one.replicas}) < min(most, len(one.replicas))
    ]


def _needs_unclean_election(one: PartitionState, alive: set[int]) -> bool:
    """Return True if there is no leader and no live in-sync replica, but a live replica outside the ISR."""
    up = alive - set(one.offline)
    return one.leader < 0 and not up & set(one.isr) and bool(up & set(one.replicas))


async def cluster_health(client: Client) -> Health:
    """Return the health of the cluster; `min.insync.replicas` is requested only if a replica lags."""
    topics = await topic_admin.describe_topics(client, None)
    states = await _states_of(client, topics)
    unsure = sorted({one.partition.topic for one in states if len(one.isr) < len(one.replicas)})
    min_isr = await min_isr_of(client, unsure, topics)
    # Requested last: if the node was cut off meanwhile, the rest is out of date.
    cluster = await cluster_admin.describe_cluster(client)
    since_ms = cluster.cut_off_since_ms if cluster.cut_off_since_ms >= 0 else None
    return assess(cluster.controller_id, cluster.brokers, states, min_isr, cut_off_since_ms=since_ms)


async def partition_states(client: Client) -> list[PartitionState]:
    """Return the metadata of all partitions of the cluster."""
    return await _states_of(client, await topic_admin.describe_topics(client, None))


async def _states_of(client: Client, topics: Sequence[MetadataResponseTopic]) -> list[PartitionState]:
    moves = await cluster_admin.list_moves(client)
    return [
        PartitionState(
            partition,
            one.leader_id,
            one.replica_nodes,
            one.isr_nodes,
            one.offline_replicas,
            moves[partition].adding_replicas if partition in moves else (),
        )
        for topic in topics
        for one in topic.partitions
        for partition in [TopicPartition(topic.name or "", one.partition_index)]
    ]


async def min_isr_of(
    client: Client, names: Sequence[str], topics: Sequence[MetadataResponseTopic]
) -> dict[str, int]:
    """Return `min.insync.replicas` of each of these topics; a topic that is being deleted is left out."""
    there = {topic.name for topic in topics}
    found: dict[str, int] = {}
    wanted = [name for name in names if name in there]
    for begin in range(0, len(wanted), TOPICS_PER_REQUEST):
        resources = [
            DescribeConfigsResource(
                resource_type=topic_admin.config_of_topic(name).kind,
                resource_name=name,
                configuration_keys=[MIN_ISR],
            )
            for name in wanted[begin : begin + TOPICS_PER_REQUEST]
        ]
        connection = await client.any_node()
        response = await connection.request(
            DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, timeout_s=client.remaining_s
        )
        for result in response.results:
            for config in result.configs:
                if config.value is not None and config.value.isdecimal():
                    found[result.resource_name] = int(config.value)
    return found
