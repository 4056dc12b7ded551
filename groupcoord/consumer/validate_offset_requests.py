"""Checks that a member of a consumer group may commit or fetch offsets of partitions (KIP-1251)."""

from collections.abc import Mapping
from typing import NoReturn

from ottla.groupcoord.assignment import OwnedEpochs
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.offsets.offset_commands import (
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from ottla.groupcoord.topics_view import TopicsView
from ottla.logstore.words.errors import ErrorCode, KafkaError

_NO_TOPIC = bytes(16)
_NO_PARTITIONS: Mapping[int, int] = {}


def check_committer(group: ConsumerGroup, command: OffsetCommit | TxnOffsetCommit) -> ConsumerMember | None:
    """Return the member whose partitions must be checked, since it names an old epoch; else None.

    A commit from outside the group (a negative epoch) is taken only while there are no members. But old
    producers name no member in a transaction, and are believed.
    """
    received = command.generation_id
    if (received < 0 and group.is_empty) or _names_no_member(command):
        return None
    member = group.member(command.member_id)
    if (
        isinstance(command, OffsetCommit)
        and member.classic is None
        and command.unknown_group_is_illegal_generation
    ):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the modern group protocol",
        )
    if received > member.member_epoch:
        _refuse(member, command)
    return None if received == member.member_epoch else member


def check_partition(
    member: ConsumerMember,
    command: OffsetCommit | TxnOffsetCommit,
    offset: OffsetToCommit,
    topics: TopicsView,
) -> None:
    """Take a commit of an older epoch if the member has had the partition since then; else raise an error."""
    topic_id = offset.topic_id
    if topic_id == _NO_TOPIC:
        topic = topics.by_name(offset.topic)
        topic_id = _NO_TOPIC if topic is None else topic.topic_id
    for owned in (member.assigned, member.pending_revocation):
        since = _since(owned, topic_id, offset.partition)
        if since is not None and since <= command.generation_id:
            return
    _refuse(member, command)


def check_fetcher(group: ConsumerGroup, command: OffsetFetch) -> None:
    """Check that a client that names a member and an epoch is at that epoch (since OffsetFetch 9)."""
    if command.member_id is None and command.member_epoch < 0:
        return
    member = group.member(command.member_id or "")
    if command.member_epoch != member.member_epoch:
        _refuse(member, command)


def _names_no_member(command: OffsetCommit | TxnOffsetCommit) -> bool:
    return (
        isinstance(command, TxnOffsetCommit)
        and command.generation_id == -1
        and not command.member_id
        and command.group_instance_id is None
    )


def _since(owned: OwnedEpochs, topic_id: bytes, partition: int) -> int | None:
    return owned.get(topic_id, _NO_PARTITIONS).get(partition)


def _refuse(member: ConsumerMember, command: OffsetCommit | TxnOffsetCommit | OffsetFetch) -> NoReturn:
    received = command.member_epoch if isinstance(command, OffsetFetch) else command.generation_id
    known = member.member_epoch
    is_old = isinstance(command, TxnOffsetCommit) and command.all_is_illegal_generation
    if member.classic is not None or is_old:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {received} does not match the expected member epoch {known}.",
        )
    raise KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch {known}.",
    )
