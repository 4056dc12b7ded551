"""Brokers, the replicas of partitions, reassignments and elections."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.settings.listener_settings import parse_listeners, parse_protocol_map
from ottla.node.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.node.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
)
from ottla.node.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from ottla.node.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

BROKER_RESOURCE: Final = 4
UNKNOWN_LEADER: Final = -2  # from an older node, whose response lacks the leader of the quorum
PREFERRED, UNCLEAN = 0, 1  # kinds of elections
# Partitions per request: each is a record, and the controller writes at most 10,000 at once.
MAX_MOVES: Final = 1_000


class ListenerAddress(NamedTuple):
    """A listener's name and its address."""

    name: str
    host: str
    port: int


async def describe_cluster(client: Client) -> DescribeClusterResponse:
    """Return the brokers, and the fenced ones too if the server lists them.

    For a node of Ottla `controller_id` is the leader of the quorum, or -1 if unknown; for a node of Apache
    Kafka it is any broker.
    """
    request = DescribeClusterRequest(include_fenced_brokers=True, include_contact=True)

    async def attempt() -> DescribeClusterResponse:
        connection = await client.any_node()
        response = await connection.request(request, DescribeClusterResponse, timeout_s=client.remaining_s)
        check(response.error_code, response.error_message, "the cluster")
        if response.quorum_leader_id == UNKNOWN_LEADER:
            return response
        return DescribeClusterResponse(
            cluster_id=response.cluster_id,
            controller_id=response.quorum_leader_id,
            brokers=response.brokers,
            quorum_leader_id=response.quorum_leader_id,
            cut_off_since_ms=response.cut_off_since_ms,
        )

    return await client.retry(attempt)


async def may_describe(client: Client) -> bool:
    """Return True if the client may describe the cluster, or if the server does not say.

    The response has the authorized operations even if this one is not among them, so nothing is denied.
    """
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    connection = await client.any_node()
    response = await connection.request(request, DescribeClusterResponse, timeout_s=client.remaining_s)
    allowed = response.cluster_authorized_operations
    return allowed < 0 or bool(allowed >> AclOperation.DESCRIBE & 1)


async def controller_listener(client: Client, node_id: int) -> ListenerAddress:
    """Return the controller listener of a broker that is also a controller, from its own settings."""
    names = [
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "listener.security.protocol.map",
    ]
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=names
    )
    connection = await client.node(node_id)
    response = await connection.request(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, timeout_s=client.remaining_s
    )
    described = only(response.results, f"broker {node_id}")
    check(described.error_code, described.error_message, f"broker {node_id}")
    texts = {one.name: one.value or "" for one in described.configs}
    controllers = _listed(texts.get("controller.listener.names", "").upper())
    protocols = dict.fromkeys(controllers, "PLAINTEXT")
    protocols |= parse_protocol_map(texts.get("listener.security.protocol.map", ""))
    for setting in ("advertised.listeners", "listeners"):
        for listener in parse_listeners(_listed(texts.get(setting, "")), setting, protocols):
            if listener.name in controllers[:1]:
                host, _, _ = connection.peer.rpartition(":")  # an empty host means all addresses of the node
                return ListenerAddress(listener.name, listener.host or host.strip("[]"), listener.port)
    raise KafkaError(ErrorCode.INVALID_CONFIG, "it has no listener for controllers")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregister a broker; do nothing if it is not registered."""
    request = UnregisterBrokerRequest(broker_id=broker_id)

    async def attempt() -> None:
        connection = await client.controller()
        response = await connection.request(request, UnregisterBrokerResponse, timeout_s=client.remaining_s)
        if response.error_code != ErrorCode.BROKER_ID_NOT_REGISTERED:
            check(response.error_code, response.error_message, f"broker {broker_id}")

    await client.retry(attempt)


# ---- where replicas lie --------------------------------------------------------------------------


async def move_partitions(client: Client, moves: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Start to move partitions to these brokers; None cancels a move, unless it has ended meanwhile."""
    pending = list(moves.items())
    for begin in range(0, len(pending), MAX_MOVES):
        await _move(client, dict(pending[begin : begin + MAX_MOVES]))


async def _move(client: Client, moves: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(
                    partition_index=one.partition,
                    replicas=moves[one],
                )
                for one in partitions
            ],
        )
        for name, partitions in _by_topic(moves).items()
    ]

    async def attempt() -> None:
        connection = await client.controller()
        request = AlterPartitionReassignmentsRequest(timeout_ms=client.remaining_ms, topics=topics)
        response = await connection.request(
            request, AlterPartitionReassignmentsResponse, timeout_s=client.remaining_s
        )
        check(response.error_code, response.error_message, "the move")
        for topic in response.responses:
            for one in topic.partitions:
                has_ended = one.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                if not has_ended or moves[TopicPartition(topic.name, one.partition_index)] is not None:
                    check(one.error_code, one.error_message, f"{topic.name}-{one.partition_index}")

    await client.retry(attempt)


async def list_moves(client: Client) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Return the partitions that are being reassigned."""

    async def attempt() -> ListPartitionReassignmentsResponse:
        connection = await client.controller()
        request = ListPartitionReassignmentsRequest(timeout_ms=client.remaining_ms)
        response = await connection.request(
            request, ListPartitionReassignmentsResponse, timeout_s=client.remaining_s
        )
        check(response.error_code, response.error_message, "the moves")
        return response

    response = await client.retry(attempt)
    return {
        TopicPartition(topic.name, one.partition_index): one
        for topic in response.topics
        for one in topic.partitions
    }


class ElectionResult(NamedTuple):
    """The result of the election for one partition; ELECTION_NOT_NEEDED if the right broker leads already."""

    partition: TopicPartition
    error: KafkaError | None


async def elect_leaders(
    client: Client, partitions: Iterable[TopicPartition], election_type: int
) -> list[ElectionResult]:
    """Make the controller elect leaders; return one result per partition."""
    topics = [
        TopicPartitions(topic=name, partitions=[one.partition for one in mine])
        for name, mine in _by_topic(partitions).items()
    ]

    async def attempt() -> ElectLeadersResponse:
        connection = await client.controller()
        request = ElectLeadersRequest(
            election_type=election_type, topic_partitions=topics, timeout_ms=client.remaining_ms
        )
        response = await connection.request(request, ElectLeadersResponse, timeout_s=client.remaining_s)
        check(response.error_code, None, "the election")
        return response

    response = await client.retry(attempt)
    return [
        _election(TopicPartition(topic.topic, one.partition_id), one)
        for topic in response.replica_election_results
        for one in topic.partition_result
    ]


def _election(partition: TopicPartition, result: PartitionResult) -> ElectionResult:
    try:
        check(result.error_code, result.error_message, str(partition))
    except KafkaError as error:
        return ElectionResult(partition, error)
    return ElectionResult(partition, None)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for one in sorted(partitions):
        found.setdefault(one.topic, []).append(one)
    return found
