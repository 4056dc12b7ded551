"""Bytes of committed offsets, and their limit for all shards of a node.

An offset stays until it expires, is deleted, or its group is. Without room, a commit for a partition of which
the group has no offset gets COORDINATOR_NOT_AVAILABLE, which clients retry; the last eighth is for the
metadata of present offsets. To commit one of these again takes no room.
"""

from typing import Final

from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.logstore.words.errors import ErrorCode, KafkaError

# Of an offset, beside its value, as measured; of a topic in a group; of an offset that waits for the end of
# its transaction.
OFFSET_BYTES: Final = 120
TOPIC_BYTES: Final = 350
PENDING_BYTES: Final = 450


def have_room(offsets: ShardBytes, more_bytes: int) -> bool:
    """Return True if `more_bytes` fit even for a new offset."""
    return offsets.fits(more_bytes, eighths=7)


def check_offsets(offsets: ShardBytes, more_bytes: int, *, is_new: bool) -> None:
    """Raise COORDINATOR_NOT_AVAILABLE if offsets may not take `more_bytes` more."""
    if more_bytes > 0 and not offsets.fits(more_bytes, eighths=7 if is_new else 8):
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "committed offsets use all the memory that the broker reserves for them: raise its "
            "ottla.memory.max.bytes, or delete groups that are not used",
        )
