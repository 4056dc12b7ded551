"""Groups, their members and their committed offsets.

Groups of KIP-848 and KIP-932 are described by their own APIs if the server has them, all others as classic
groups.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.error_words import sentence_of
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_brokers import ask_brokers
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.client.group_member import PROTOCOL_TYPE, decode_assignment
from ottla.node.client.share_group_admin import SHARE, delete_share_starts
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from ottla.node.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from ottla.node.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.node.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from ottla.node.wire.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupRebalance,
)
from ottla.node.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.node.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from ottla.node.wire.messages.share_group_describe import Assignment as ShareAssignment
from ottla.node.wire.messages.share_group_describe import DescribedGroup as ShareGroup
from ottla.node.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

CLASSIC, CONSUMER = "classic", "consumer"
EMPTY, DEAD = "Empty", "Dead"
MAX_OFFSET_VERSION: Final = 9  # of OffsetCommit and OffsetFetch: later versions have topic ids without names
NO_OFFSET: Final = -1
GROUPS_PER_REQUEST: Final = 100  # a response has all members of each group
# The group is not one of KIP-848, or the server has none of them.
_NOT_OF_KIP_848: Final = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}

# A group in a list is left out with these errors: it is gone, or this client may not see it.
_LEFT_OUT: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; "" for fields that an old server lacks."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    coordinator_id: int


class ConsumerMemberView(NamedTuple):
    """The fields that only members of groups of KIP-848 or KIP-932 have, with the protocol of each."""

    protocol: str | None  # classic, consumer or share; None if the server does not return it
    epoch: int
    target: Sequence[TopicPartition]  # its assignment once other members have revoked these partitions
    topics: Sequence[str]
    expression: str | None


class GroupMemberView(NamedTuple):
    """A member; `partitions` is None if its assignment has no partitions, as in Connect."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Sequence[TopicPartition] | None
    consumer: ConsumerMemberView | None = None  # None for members of a classic group


class RebalanceEvent(NamedTuple):
    """The cause of a rebalance: the member that caused it, and the reason that its client gave."""

    cause: str
    at_ms: int
    member_id: str
    client_id: str
    reason: str


class RebalanceView(NamedTuple):
    """One of the last rebalances of a group; fields that are unknown while it runs are None."""

    began_ms: int
    ended_ms: int | None
    generation_before: int
    generation_after: int | None
    members: int | None
    events: Sequence[RebalanceEvent]
    events_left_out: int


class GroupView(NamedTuple):
    """A group; the epochs are those of KIP-848 and KIP-932, None for a classic group."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    coordinator: str
    members: Sequence[GroupMemberView]
    # None if the server does not return them, as Apache Kafka
    rebalances: Sequence[RebalanceView] | None = None
    target_epoch: int | None = None  # of the assignment that members move to


class ListedGroups(NamedTuple):
    """The groups by name, and the errors of the brokers that did not answer."""

    groups: list[ListedGroup]
    problems: Mapping[int, KafkaError]


async def list_groups(client: Client, *, states: Sequence[str], types: Sequence[str]) -> ListedGroups:
    """Return the groups of all brokers by name; only those of these states and types, if any are given."""
    request = ListGroupsRequest(states_filter=states, types_filter=types)

    async def ask(client: Client, broker_id: int) -> list[ListedGroup]:
        connection = await client.node(broker_id)
        response = await connection.request(request, ListGroupsResponse, timeout_s=client.remaining_s)
        check(response.error_code, None, f"the groups of broker {broker_id}")
        return [
            ListedGroup(one.group_id, one.group_type, one.group_state, one.protocol_type, broker_id)
            for one in response.groups
        ]

    answers = await ask_brokers(client, ask)
    # An old server ignores the filters that it does not know.
    groups = [
        one
        for mine in answers.found.values()
        for one in mine
        if (not states or one.state in states) and (not types or one.group_type.lower() in types)
    ]
    # A group that has just moved may be listed by its old coordinator, too.
    return ListedGroups(sorted({one.group_id: one for one in groups}.values()), answers.problems)


async def describe_group(client: Client, group_id: str) -> GroupView:
    """Return a group with its members; GROUP_ID_NOT_FOUND if there is none of that name."""

    async def attempt() -> GroupView:
        connection = await client.coordinator(group_id)
        if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.versions:
            view = await _describe_of_kip_848(client, connection, group_id)
            if view is not None:
                return view
        try:
            return await _describe_classic(client, connection, group_id)
        except KafkaError as error:
            if (
                error.code is not ErrorCode.GROUP_ID_NOT_FOUND
                or ApiKey.SHARE_GROUP_DESCRIBE not in connection.versions
            ):
                raise
            view = await _describe_share(client, connection, group_id)
            if view is None:
                raise
            return view

    return await client.retry(attempt)


async def describe_groups(client: Client, listed: Iterable[ListedGroup]) -> list[GroupView]:
    """Return all of these groups that still exist, by name: one request for many groups of a coordinator.

    Groups that the client may list but not describe, such as those with topics it may not see, are left out.
    """
    by_coordinator: dict[tuple[int, str], list[str]] = {}
    for one in listed:
        kind = one.group_type.lower()
        kind = kind if kind in (CONSUMER, SHARE) else CLASSIC
        by_coordinator.setdefault((one.coordinator_id, kind), []).append(one.group_id)
    found: list[GroupView] = []
    for (coordinator_id, kind), names in sorted(by_coordinator.items()):
        for first in range(0, len(names), GROUPS_PER_REQUEST):
            found += await _describe_some(
                client, coordinator_id, names[first : first + GROUPS_PER_REQUEST], kind
            )
    return sorted(found, key=lambda group: group.group_id)


async def _describe_some(
    client: Client, coordinator_id: int, names: Sequence[str], kind: str
) -> list[GroupView]:
    connection = await client.node(coordinator_id)
    answers: list[tuple[str, Callable[[], GroupView]]] = []
    if kind == CONSUMER:
        of_consumers = await connection.request(
            ConsumerGroupDescribeRequest(group_ids=names),
            ConsumerGroupDescribeResponse,
            timeout_s=client.remaining_s,
        )
        answers += [
            (one.group_id, partial(_view_of_kip_848, one, connection.peer)) for one in of_consumers.groups
        ]
    elif kind == SHARE:
        of_share = await connection.request(
            ShareGroupDescribeRequest(group_ids=names),
            ShareGroupDescribeResponse,
            timeout_s=client.remaining_s,
        )
        answers += [(one.group_id, partial(_view_of_share, one, connection.peer)) for one in of_share.groups]
    else:
        of_classic = await connection.request(
            DescribeGroupsRequest(groups=names), DescribeGroupsResponse, timeout_s=client.remaining_s
        )
        answers += [
            (one.group_id, partial(_view_of_classic, one, connection.peer)) for one in of_classic.groups
        ]
    found: list[GroupView] = []
    for name, answer in answers:
        try:
            found.append(answer())
        except KafkaError as error:
            if error.code.retriable:  # it has just moved to another coordinator
                found.append(await describe_group(client, name))
            elif error.code not in _LEFT_OUT:
                raise
    return found


async def _describe_of_kip_848(client: Client, connection: PeerClient, group_id: str) -> GroupView | None:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_timeline=True)
    response = await connection.request(request, ConsumerGroupDescribeResponse, timeout_s=client.remaining_s)
    group = only(response.groups, f"group {group_id}")
    if group.error_code in _NOT_OF_KIP_848:
        return None
    return _view_of_kip_848(group, connection.peer)


def _view_of_kip_848(group: ConsumerGroup, coordinator: str) -> GroupView:
    check(group.error_code, group.error_message, f"group {group.group_id}")
    members = [_view_of(one) for one in group.members]
    return GroupView(
        group.group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        group.group_epoch,
        coordinator,
        sorted(members, key=lambda one: one.member_id),
        None if group.rebalances is None else [_rebalance_view_of(one) for one in group.rebalances],
        group.assignment_epoch,
    )


async def _describe_share(client: Client, connection: PeerClient, group_id: str) -> GroupView | None:
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    response = await connection.request(request, ShareGroupDescribeResponse, timeout_s=client.remaining_s)
    group = only(response.groups, f"group {group_id}")
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    return _view_of_share(group, connection.peer)


def _view_of_share(group: ShareGroup, coordinator: str) -> GroupView:
    check(group.error_code, group.error_message, f"group {group.group_id}")
    members = [
        GroupMemberView(
            one.member_id,
            None,
            one.client_id,
            one.client_host.lstrip("/"),
            _partitions_of(one.assignment),
            # Members of a share group receive partitions without a revocation by others: the assignment is
            # the target.
            ConsumerMemberView(
                SHARE,
                one.member_epoch,
                _partitions_of(one.assignment),
                sorted(one.subscribed_topic_names),
                None,
            ),
        )
        for one in group.members
    ]
    return GroupView(
        group.group_id,
        SHARE,
        group.group_state,
        SHARE,
        group.assignor_name,
        group.group_epoch,
        coordinator,
        sorted(members, key=lambda one: one.member_id),
        None,
        group.assignment_epoch,
    )


def _view_of(member: Member) -> GroupMemberView:
    return GroupMemberView(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.lstrip("/"),
        _partitions_of(member.assignment),
        ConsumerMemberView(
            {0: CLASSIC, 1: CONSUMER}.get(member.member_type),
            member.member_epoch,
            _partitions_of(member.target_assignment),
            sorted(member.subscribed_topic_names),
            member.subscribed_topic_regex or None,
        ),
    )


def _partitions_of(assignment: Assignment | ShareAssignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


async def _describe_classic(client: Client, connection: PeerClient, group_id: str) -> GroupView:
    request = DescribeGroupsRequest(groups=[group_id], include_timeline=True)
    response = await connection.request(request, DescribeGroupsResponse, timeout_s=client.remaining_s)
    return _view_of_classic(only(response.groups, f"group {group_id}"), connection.peer)


def _view_of_classic(group: ClassicGroup, coordinator: str) -> GroupView:
    check(group.error_code, group.error_message, f"group {group.group_id}")
    if group.group_state == DEAD:  # the answer for an unknown group before version 6
        not_found = ErrorCode.GROUP_ID_NOT_FOUND
        raise KafkaError(not_found, sentence_of(not_found, f"group {group.group_id}"))
    members = [_classic_view_of(one, group.protocol_type) for one in group.members]
    return GroupView(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        None,
        coordinator,
        sorted(members, key=lambda one: one.member_id),
        None if group.rebalances is None else [_rebalance_view_of(one) for one in group.rebalances],
    )


def _rebalance_view_of(rebalance: GroupRebalance) -> RebalanceView:
    is_running = rebalance.ended_ms < 0
    return RebalanceView(
        rebalance.began_ms,
        None if is_running else rebalance.ended_ms,
        rebalance.generation_before,
        None if is_running else rebalance.generation_after,
        None if is_running else rebalance.member_count,
        [
            RebalanceEvent(one.cause, one.timestamp_ms, one.member_id, one.client_id, one.reason)
            for one in rebalance.events
        ],
        rebalance.events_left_out,
    )


def _classic_view_of(member: DescribedGroupMember, protocol_type: str) -> GroupMemberView:
    partitions: list[TopicPartition] | None = None
    if protocol_type == PROTOCOL_TYPE:
        try:
            partitions = sorted(decode_assignment(bytes(member.member_assignment)))
        except KafkaError:  # only the members have to understand what the group's leader wrote
            partitions = None
    return GroupMemberView(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host.lstrip("/"),
        partitions,
    )


# ---- offsets -------------------------------------------------------------------------------------


class Committed(NamedTuple):
    """The committed offsets of a group, sorted, and its lags as the coordinator returns them.

    Each of the lags is a log end offset and the age in ms of the oldest record not yet committed; None for
    an unknown age. `lags` is None if the server does not return any, as Apache Kafka.
    """

    offsets: dict[TopicPartition, int]
    lags: dict[TopicPartition, tuple[int, int | None]] | None


async def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, int]:
    """Return all committed offsets of a group, sorted; none for a group that does not exist."""
    return (await committed(client, group_id, with_lag=False)).offsets


async def committed(client: Client, group_id: str, *, with_lag: bool) -> Committed:
    """Return all committed offsets of a group, and the lags that its coordinator returns."""
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = OffsetFetchRequest(group_id=group_id, topics=None, groups=[group], include_lag=with_lag)

    async def attempt() -> Committed:
        connection = await client.coordinator(group_id)
        response = await connection.request(
            request, OffsetFetchResponse, timeout_s=client.remaining_s, max_version=MAX_OFFSET_VERSION
        )
        return _committed_of(group_id, response.groups[0] if response.groups else response)

    return await client.retry(attempt)


async def committed_by_groups(
    client: Client, coordinator_id: int, group_ids: Sequence[str]
) -> dict[str, Committed]:
    """Return the committed offsets and lags of groups of one coordinator, without groups that moved.

    It sends one request, without a retry. The result is empty for a server that takes one group per request.
    """
    groups = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in group_ids]
    connection = await client.node(coordinator_id)
    response = await connection.request(
        OffsetFetchRequest(groups=groups, include_lag=True),
        OffsetFetchResponse,
        timeout_s=client.remaining_s,
        max_version=MAX_OFFSET_VERSION,
    )
    return {one.group_id: _committed_of(one.group_id, one) for one in response.groups if not one.error_code}


def _committed_of(group_id: str, answer: OffsetFetchResponseGroup | OffsetFetchResponse) -> Committed:
    check(answer.error_code, None, f"the offsets of group {group_id}")
    offsets: dict[TopicPartition, int] = {}
    lags: dict[TopicPartition, tuple[int, int | None]] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            check(one.error_code, None, f"the offset of {topic.name}-{one.partition_index}")
            partition = TopicPartition(topic.name, one.partition_index)
            if one.committed_offset != NO_OFFSET:
                offsets[partition] = one.committed_offset
            if isinstance(one, OffsetFetchResponsePartitions) and one.log_end_offset >= 0:
                lags[partition] = one.log_end_offset, None if one.lag_ms < 0 else one.lag_ms
    has_lags = isinstance(answer, OffsetFetchResponseGroup) and answer.has_lag
    return Committed(dict(sorted(offsets.items())), lags if has_lags else None)


async def commit_offsets(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members; UNKNOWN_MEMBER_ID if it has some by now."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (name, number), offset in offsets.items():
        one = OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=""
        )
        by_topic.setdefault(name, []).append(one)
    topics = [OffsetCommitRequestTopic(name=name, partitions=one) for name, one in by_topic.items()]
    request = OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)

    async def attempt() -> None:
        connection = await client.coordinator(group_id)
        response = await connection.request(
            request, OffsetCommitResponse, timeout_s=client.remaining_s, max_version=MAX_OFFSET_VERSION
        )
        for topic in response.topics:
            for one in topic.partitions:
                check(one.error_code, None, f"the offset of {topic.name}-{one.partition_index}")

    await client.retry(attempt)


async def delete_offsets(
    client: Client, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete the committed offsets of these partitions; return the error code of each, 0 for none."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for name, number in partitions:
        by_topic.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=number))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=one) for name, one in by_topic.items()]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    async def attempt() -> dict[TopicPartition, int]:
        connection = await client.coordinator(group_id)
        response = await connection.request(request, OffsetDeleteResponse, timeout_s=client.remaining_s)
        check(response.error_code, None, f"group {group_id}")
        return {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
        }

    return await client.retry(attempt)


async def delete_topic_offsets(client: Client, group_id: str, topic: str) -> None:
    """Delete a group's offsets of a topic, whatever its type; KafkaError if it fails or there are none."""
    if (await describe_group(client, group_id)).group_type == SHARE:
        code, message = (await delete_share_starts(client, group_id, [topic]))[topic]
        check(code, message, f"the start offsets of {topic} in group {group_id}")
        return
    known = [one for one in await committed_offsets(client, group_id) if one.topic == topic]
    if not known:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"group {group_id} has no committed offsets of {topic}"
        )
    for one, error_code in (await delete_offsets(client, group_id, known)).items():
        check(error_code, None, f"the offset of {one} in group {group_id}")


async def delete_group(client: Client, group_id: str) -> None:
    """Delete a group without members, and all its committed offsets."""
    request = DeleteGroupsRequest(groups_names=[group_id])

    async def attempt() -> None:
        connection = await client.coordinator(group_id)
        response = await connection.request(request, DeleteGroupsResponse, timeout_s=client.remaining_s)
        deleted = only(response.results, f"group {group_id}")
        check(deleted.error_code, deleted.error_message, f"group {group_id}")

    await client.retry(attempt)
