"""Groups as an administrator sees them: which there are, of which kind, and whether they have members."""

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
from ottla.pipeline.client.metadata import Cluster, Kind

DEAD: Final = "Dead"  # the state of a group that there is not
WITHOUT_MEMBERS: Final = frozenset({"Empty", DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as its coordinator lists it; `state` and `group_type` are empty where old nodes tell none.

    `protocol_type` is "consumer" of consumers, and empty of a group that only ever had offsets committed.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str

    @property
    def is_of_consumers(self) -> bool:
        """Whether its offsets are those of consumers: no share group's, no worker's of Kafka Connect."""
        is_kind = self.group_type.lower() in ("", "classic", "consumer")
        return is_kind and self.protocol_type in ("", "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group of either protocol; `state` is DEAD for one that there is not."""

    group_id: str
    state: str
    members_count: int


def list_groups(cluster: Cluster) -> dict[str, ListedGroup]:
    """All groups of the cluster by id, asked of every node that it has now."""

    def attempt() -> dict[str, ListedGroup]:
        cluster.refresh_nodes()  # one that has gone since the last attempt is asked no more
        connections = [
            cluster.connections.to(node_id, Purpose.CONTROL) for node_id in cluster.connections.nodes()
        ]
        sent = [(connection, connection.send(ListGroupsRequest())) for connection in connections]
        found: dict[str, ListedGroup] = {}
        problem: KafkaError | None = None
        for connection, ticket in sent:
            try:
                response: ListGroupsResponse = connection.receive(ticket)
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
    """State and number of members of each group, of consumers' old protocol and their new one (KIP-848)."""

    def describe(group_id: str) -> DescribedGroup:
        return cluster.retry_with_coordinator(
            Kind.GROUP, group_id, lambda connection: _describe(connection, group_id)
        )

    return {group_id: describe(group_id) for group_id in group_ids}


def has_members(cluster: Cluster, group: ListedGroup | None) -> bool:
    """Whether a listed group has members; asks its coordinator only where the list has no states."""
    if group is None:
        return False
    state = group.state or describe_groups(cluster, [group.group_id])[group.group_id].state
    return state not in WITHOUT_MEMBERS


def _describe(connection: BrokerConnection, group_id: str) -> DescribedGroup:
    of_new = _describe_new(connection, group_id)
    if of_new is not None:
        return of_new
    response: DescribeGroupsResponse = connection.request(DescribeGroupsRequest(groups=[group_id]))
    if len(response.groups) != 1 or response.groups[0].group_id != group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no single answer about group {group_id}")
    one = response.groups[0]
    if one.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, state=DEAD, members_count=0)
    check(one.error_code, f"group {group_id}")
    return DescribedGroup(group_id=group_id, state=one.group_state, members_count=len(one.members))


def _describe_new(connection: BrokerConnection, group_id: str) -> DescribedGroup | None:
    """None where it is no group of the new protocol, or the node has none of those."""
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
