"""Appends records that belong together as one batch, if a batch can hold them."""

from collections.abc import Sequence

from ottla.groupcoord.effects import Append, Effect
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.record_codec import GroupRecord, record_size_bytes
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.words.errors import ErrorCode, KafkaError


def checked_append(shard: GroupShard, records: Sequence[GroupRecord]) -> list[Effect]:
    """Return the append of one batch with all of the records, or no effect if there are none.

    KafkaError(GROUP_MAX_SIZE_REACHED) if they do not fit in a batch; they must not be split.
    `check_subscription` has judged the part of a single member before.
    """
    if not records:
        return []
    size_bytes, limit_bytes = sum(map(record_size_bytes, records)), shard.config.max_batch_bytes
    if size_bytes > limit_bytes:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The group is too large: the records of its members and their "
            f"partitions take {size_bytes} bytes, but a batch of {OFFSETS_TOPIC} can "
            f"have at most {limit_bytes}.",
        )
    return [Append(records)]


def check_subscription(shard: GroupShard, record: GroupRecord, advice: str) -> None:
    """Raise INVALID_REQUEST if no batch can hold the record of a member's subscription."""
    size_bytes, limit_bytes = record_size_bytes(record), shard.config.max_batch_bytes
    if size_bytes > limit_bytes:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The subscription of the member takes {size_bytes} bytes, but a batch of "
            f"{OFFSETS_TOPIC} can have at most {limit_bytes}: {advice}",
        )
