"""Whether a cluster is well: brokers, and the partitions with which something is wrong."""

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
# Topics of one DescribeConfigs: an answer has a line for each, and is made without a pause.
TOPICS_OF_A_REQUEST: Final = 500


class PartitionState(NamedTuple):
    """A partition as the metadata have it; `coming` are replicas that a move adds."""

    partition: TopicPartition
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]
    coming: Sequence[int] = ()

    @property
    def is_under_replicated(self) -> bool:
        """As Apache Kafka counts: replicas that are just being added are not missed."""
        return len(self.isr) < len(set(self.replicas) - set(self.coming))


class Health(NamedTuple):
    """The partitions of each kind of trouble, sorted; one may be in several."""

    controller_id: int
    brokers: Sequence[DescribeClusterBroker]
    topics: int
    partitions: int
    leaderless: Sequence[TopicPartition]  # Kafka's OfflinePartitionsCount
    under_replicated: Sequence[TopicPartition]
    under_min_isr: Sequence[TopicPartition]  # producers with acks=all are refused
    offline: Sequence[TopicPartition]  # with a replica on a broker or a directory that is down
    unclean: Sequence[TopicPartition]  # only an unclean election could give them a leader now
    replicas: Mapping[int, int]  # by broker, as the two that follow
    in_sync: Mapping[int, int]
    leads: Mapping[int, int]
    cut_off_since_ms: int | None = None  # of the node that answered: all of this is as old as that
    crowded: Sequence[TopicPartition] = ()  # in fewer racks than they could be
    lacking: Mapping[TopicPartition, Set[int]] = MappingProxyType({})  # whom those with a trouble lack

    def is_explained_by(self, down: Iterable[int], partition: TopicPartition) -> bool:
        """Return whether these brokers are all that a partition lacks."""
        lacking = self.lacking.get(partition, frozenset())
        return bool(lacking) and lacking <= set(down)

    @property
    def is_healthy(self) -> bool:
        """Nothing is wrong with any partition, no broker that is registered is missing, and this is no old
        picture.
        """
        return self.reason is None

    @property
    def reason(self) -> str | None:
        """Why the cluster is not healthy, in a sentence; None if it is."""
        if self.cut_off_since_ms is not None:
            return cut_off_sentence(self.cut_off_since_ms)
        troubles = [
            (self.leaderless, "without a leader"),
            (self.offline, "with an offline replica"),
            (self.under_min_isr, "under min.insync.replicas"),
            (self.under_replicated, "under-replicated"),
            (self.unclean, "without a replica in sync"),
        ]
        found = ["no controller is known"] if self.controller_id < 0 else []
        fenced = [str(one.broker_id) for one in self.brokers if one.is_fenced]
        if fenced:
            found.append(f"not running: broker{'s' * (len(fenced) > 1)} {', '.join(fenced)}")
        found += [f"{_partitions(len(some))} {words}" for some, words in troubles if some]
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
    """Sort the troubles. `min_isr` by topic; of a topic that is not there 1 is taken."""
    living = {one.broker_id for one in brokers if not one.is_fenced}
    states = sorted(partitions)
    return Health(
        controller_id,
        sorted(brokers, key=lambda one: one.broker_id),
        len({one.partition.topic for one in states}),
        len(states),
        [one.partition for one in states if one.leader < 0],
        [one.partition for one in states if one.is_under_replicated],
        # A topic with fewer replicas than it asks for in sync does with what it has, as Apache Kafka's.
        [
            one.partition
            for one in states
            if len(one.isr) < min(min_isr.get(one.partition.topic, 1), len(one.replicas))
        ],
        [one.partition for one in states if one.offline],
        [one.partition for one in states if _needs_unclean_election(one, living)],
        Counter(broker for one in states for broker in one.replicas),
        Counter(broker for one in states for broker in one.isr),
        Counter(one.leader for one in states),
        cut_off_since_ms,
        _crowded(states, {one.broker_id: one.rack for one in brokers}),
        {one.partition: lacking for one in states if (lacking := _lacking(one))},
    )


def _lacking(one: PartitionState) -> frozenset[int]:
    """Return the brokers by which a partition would be well; without a leader, those that could lead it."""
    if one.leader < 0:
        return frozenset(one.isr or one.offline)  # eligible replicas are not in the metadata
    return frozenset(one.replicas) - frozenset(one.isr) - frozenset(one.coming)


def _crowded(states: Sequence[PartitionState], racks: Mapping[int, str | None]) -> list[TopicPartition]:
    """Return the partitions that are in fewer racks than they could be; none unless each broker has one."""
    if not all(racks.values()):
        return []
    most = len(set(racks.values()))
    return [
        one.partition
        for one in states
        if len({racks.get(broker) for broker in one.replicas}) < min(most, len(one.replicas))
    ]


def _needs_unclean_election(one: PartitionState, living: set[int]) -> bool:
    """No leader, nobody in sync is there, but another replica is: it lacks records that were acknowledged."""
    up = living - set(one.offline)
    return one.leader < 0 and not up & set(one.isr) and bool(up & set(one.replicas))


async def cluster_health(client: Client) -> Health:
    """Ask for all of it; topics with every replica in sync are not asked what they need."""
    topics = await topic_admin.describe_topics(client, None)
    states = await _states_of(client, topics)
    unsure = sorted({one.partition.topic for one in states if len(one.isr) < len(one.replicas)})
    min_isr = await min_isr_of(client, unsure, topics)
    # Asked again at the end: a node that was cut off meanwhile gave an old picture.
    cluster = await cluster_admin.describe_cluster(client)
    since_ms = cluster.cut_off_since_ms if cluster.cut_off_since_ms >= 0 else None
    return assess(cluster.controller_id, cluster.brokers, states, min_isr, cut_off_since_ms=since_ms)


async def partition_states(client: Client) -> list[PartitionState]:
    """Return all partitions of the cluster as the metadata have them."""
    return await _states_of(client, await topic_admin.describe_topics(client, None))


async def _states_of(client: Client, topics: Sequence[MetadataResponseTopic]) -> list[PartitionState]:
    moves = await cluster_admin.list_moves(client)
    return [
        PartitionState(
            place,
            one.leader_id,
            one.replica_nodes,
            one.isr_nodes,
            one.offline_replicas,
            moves[place].adding_replicas if place in moves else (),
        )
        for topic in topics
        for one in topic.partitions
        for place in [TopicPartition(topic.name or "", one.partition_index)]
    ]


async def min_isr_of(
    client: Client, names: Sequence[str], topics: Sequence[MetadataResponseTopic]
) -> dict[str, int]:
    """What `min.insync.replicas` each of these topics has; of one that is just deleted nothing."""
    there = {topic.name for topic in topics}
    found: dict[str, int] = {}
    wanted = [name for name in names if name in there]
    for begin in range(0, len(wanted), TOPICS_OF_A_REQUEST):
        resources = [
            DescribeConfigsResource(
                resource_type=topic_admin.config_of_topic(name).kind,
                resource_name=name,
                configuration_keys=[MIN_ISR],
            )
            for name in wanted[begin : begin + TOPICS_OF_A_REQUEST]
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
