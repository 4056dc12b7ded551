"""Groups as an administrator sees them: their ids and kinds, and whether they have members."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.node.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.node.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.metadata import Cluster, CoordinatorType

DEAD: Final = "Dead"  # the state of a group that does not exist
WITHOUT_MEMBERS: Final = frozenset({"Empty", DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as its coordinator lists it; `state` and `group_type` are empty if an old node omits them.

    `protocol_type` is "consumer" for consumers, and empty for a group that only ever had offsets committed.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str

    @property
    def is_of_consumers(self) -> bool:
        """True for a group of consumers: no share group, and no group of Kafka Connect."""
        is_kind = self.group_type.lower() in ("", "classic", "consumer")
        return is_kind and self.protocol_type in ("", "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group of either protocol; `state` is DEAD if it does not exist."""

    group_id: str
    state: str
    members_count: int


def list_groups(cluster: Cluster) -> dict[str, ListedGroup]:
    """Return all groups of the cluster by id; every node that it has now is asked."""

    def attempt() -> dict[str, ListedGroup]:
        cluster.refresh_nodes()  # a node that left since the last attempt is not asked again
        connections = [
            cluster.connections.to(node_id, Purpose.CONTROL) for node_id in cluster.connections.nodes()
        ]
        sent = [(connection, connection.send(ListGroupsRequest())) for connection in connections]
        found: dict[str, ListedGroup] = {}
        problem: KafkaError | None = None
        for connection, pending in sent:
            try:
                response: ListGroupsResponse = connection.receive(pending)
                check(response.error_code, f"groups of {connection.peer}")
            except KafkaError as error:
                problem = error
                continue
            for one in response.groups:
                found[one.group_id] = ListedGroup(
                    group_id=one.group_id,
                    protocol_type=one.protocol_type,
                    state=one.group_state,
                    group_type=one.group_type,
                )
        if problem is not None:
            raise problem
        return found

    return cluster.retry(attempt)


def describe_groups(cluster: Cluster, group_ids: Sequence[str]) -> dict[str, DescribedGroup]:
    """Return the state and size of each group, of the classic protocol or the consumer protocol (KIP-848)."""

    def describe(group_id: str) -> DescribedGroup:
        return cluster.retry_with_coordinator(
            CoordinatorType.GROUP, group_id, lambda connection: _describe(connection, group_id)
        )

    return {group_id: describe(group_id) for group_id in group_ids}


def has_members(cluster: Cluster, group: ListedGroup | None) -> bool:
    """Return True if a listed group has members; asks its coordinator only if the list has no states.

    None, for a group that is not listed, has none.
    """
    if group is None:
        return False
    state = group.state or describe_groups(cluster, [group.group_id])[group.group_id].state
    return state not in WITHOUT_MEMBERS


def _describe(connection: BrokerConnection, group_id: str) -> DescribedGroup:
    described = _describe_consumer_group(connection, group_id)
    if described is not None:
        return described
    response: DescribeGroupsResponse = connection.request(DescribeGroupsRequest(groups=[group_id]))
    if len(response.groups) != 1 or response.groups[0].group_id != group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no single answer about group {group_id}")
    one = response.groups[0]
    if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, state=DEAD, members_count=0)
    check(one.error_code, f"group {group_id}")
    return DescribedGroup(group_id=group_id, state=one.group_state, members_count=len(one.members))


def _describe_consumer_group(connection: BrokerConnection, group_id: str) -> DescribedGroup | None:
    """Describe a group of the consumer protocol; None if it is of another, or the node has no such groups."""
    try:
        response: ConsumerGroupDescribeResponse = connection.request(
            ConsumerGroupDescribeRequest(group_ids=[group_id])
        )
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    if len(response.groups) != 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no single answer about group {group_id}")
    one = response.groups[0]
    if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(one.error_code, f"group {group_id}", one.error_message)
    return DescribedGroup(group_id=group_id, state=one.group_state, members_count=len(one.members))
