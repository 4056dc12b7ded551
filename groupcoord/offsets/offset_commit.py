"""OffsetCommit and TxnOffsetCommit: records the positions that clients commit.

They come from members and from clients that assign partitions themselves. A commit from outside the group
(generation -1, no member id) is taken only while the group has no members. Members may commit while a
rebalance is being prepared, so that they can commit their work before they hand it over; not while the
rebalance completes.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from ottla.groupcoord.classic.rebalance import start_session
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.validate_offset_requests import check_committer, check_partition
from ottla.groupcoord.effects import Append, Effect, Reply
from ottla.groupcoord.group_records import NO_TIMESTAMP_MS, OffsetCommitValue
from ottla.groupcoord.offsets.offset_commands import (
    OffsetCommit,
    OffsetToCommit,
    PackedOffsets,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult
from ottla.groupcoord.offsets.offset_values import CommittedOffsets, pack_offset_value, pack_positions
from ottla.groupcoord.record_codec import record_size_bytes
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.logstore.words.errors import ErrorCode, KafkaError

DEFAULT_RETENTION = -1
LATEST_MS = 2**63 - 1  # the last expiry that the record of an offset can hold


def commit_offsets(shard: GroupShard, command: OffsetCommit, now_ms: int) -> list[Effect]:
    group = shard.group(command.group_id)
    effects: list[Effect] = []
    behind: ConsumerMember | None = None
    if group is None:
        _check_unknown_group(command)
        shard.check_new_group()
    elif isinstance(group, ConsumerGroup):
        behind = check_committer(group, command)
    elif isinstance(group, ShareGroup):
        group.refuse_offsets()
    else:
        group.check_commit(command)
        member = group.members.get(command.member_id)
        if member is not None:
            effects.append(start_session(group, member))  # a commit renews the session
    expire_ms = NO_TIMESTAMP_MS
    if command.retention_time_ms != DEFAULT_RETENTION:
        expire_ms = min(now_ms + command.retention_time_ms, LATEST_MS)
    records, errors = _records(shard, command, behind, now_ms, expire_ms)
    shard.check_offsets(records, is_transactional=False)
    if records:
        effects.append(Append(records))
    return [*effects, Reply(command.token, OffsetCommitResult(errors=errors))]


def commit_in_transaction(shard: GroupShard, command: TxnOffsetCommit, now_ms: int) -> list[Effect]:
    """Decide a TxnOffsetCommit: the offsets count when the transaction is committed.

    Old producers do not name their consumer, so a request without a member is not checked; one that names a
    member is checked against its generation. Such a commit does not renew the member's session.
    """
    group = shard.group(command.group_id)
    behind: ConsumerMember | None = None
    if isinstance(group, ConsumerGroup):
        behind = check_committer(group, command)
    elif isinstance(group, ShareGroup):
        group.refuse_offsets()
    elif group is not None:
        group.check_commit(command, is_transactional=True)
    elif command.generation_id >= 0:
        is_old = command.all_is_illegal_generation
        code = ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.GROUP_ID_NOT_FOUND
        raise KafkaError(code, "the group does not exist")
    else:
        shard.check_new_group()
    records, errors = _records(shard, command, behind, now_ms, NO_TIMESTAMP_MS)
    shard.check_offsets(records, is_transactional=True)
    effects: list[Effect] = [Append(records, command.producer, command.guard)] if records else []
    return [*effects, Reply(command.token, OffsetCommitResult(errors=errors))]


def _records(
    shard: GroupShard,
    command: OffsetCommit | TxnOffsetCommit,
    behind: ConsumerMember | None,
    now_ms: int,
    expire_ms: int,
) -> tuple[list[CommittedOffsets], list[ErrorCode]]:
    """Return the records of a commit, without rejected offsets, and an error code for each of its offsets.

    `behind` is a member of a consumer group that names an old epoch.
    """
    errors: list[ErrorCode] = []
    records: list[CommittedOffsets] = []
    partitions: list[int] = []  # of the last record,
    values: list[bytes] = []  # while it takes more
    room_bytes = shard.config.max_batch_bytes
    for offset in _opened(command.offsets, is_needed=behind is not None or expire_ms != NO_TIMESTAMP_MS):
        if isinstance(offset, PackedOffsets):
            packed = pack_positions(offset.positions, now_ms, offset.topic_id)
            records.append(CommittedOffsets(command.group_id, offset.topic, offset.partitions, packed))
            errors += repeat(ErrorCode.NONE, len(packed))
            continue
        if _length(offset.metadata) > shard.config.offset_metadata_max_bytes:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        if behind is not None:
            check_partition(behind, command, offset, shard.topics)
        errors.append(ErrorCode.NONE)
        if not records or records[-1].topic != offset.topic or records[-1].values is not values:
            partitions, values = [], []
            records.append(CommittedOffsets(command.group_id, offset.topic, partitions, values))
        partitions.append(offset.partition)
        value = _to_value(offset, now_ms, expire_ms)
        values.append(value)
        room_bytes -= len(command.group_id) + len(offset.topic) + len(value)
        if room_bytes < 0:  # stop early in a commit of very many offsets
            raise _too_many()
    if sum(map(record_size_bytes, records)) > shard.config.max_batch_bytes:
        raise _too_many()
    return records, errors


def _too_many() -> KafkaError:
    """Return the error of a commit that does not fit into one batch: it is all or nothing."""
    return KafkaError(
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "the offsets do not fit into one batch: commit fewer at a time"
    )


def _check_unknown_group(command: OffsetCommit) -> None:
    """Raise an error if a commit to a group that does not exist names a member.

    Other commits make the group when their records are replayed.
    """
    if command.generation_id >= 0:
        if command.unknown_group_is_illegal_generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, "the group does not exist")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")


def _opened(
    offsets: Sequence[OffsetToCommit | PackedOffsets], *, is_needed: bool
) -> Iterable[OffsetToCommit | PackedOffsets]:
    """Return the offsets; if `is_needed`, each by itself, since each has to be looked at."""
    if not is_needed:
        return offsets
    opened = (each.opened() if isinstance(each, PackedOffsets) else (each,) for each in offsets)
    return chain.from_iterable(opened)


def _to_value(offset: OffsetToCommit, now_ms: int, expire_ms: int) -> bytes:
    if expire_ms != NO_TIMESTAMP_MS:
        # The one version of the record that has this field lacks leader epoch and topic id.
        value = OffsetCommitValue(
            offset=offset.offset,
            metadata=offset.metadata,
            commit_timestamp=now_ms,
            expire_timestamp=expire_ms,
        )
    else:
        value = OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=now_ms,
            topic_id=offset.topic_id,
        )
    return pack_offset_value(value)


def _length(text: str) -> int:
    """Return the length as Kafka counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
