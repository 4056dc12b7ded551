"""Bytes of committed offsets, and their limit: for all shards of a node.

An offset stays until it expires, is deleted, or its group is. Whoever commits for a partition that the group
has no offset of is told COORDINATOR_NOT_AVAILABLE when there is no room, which clients try again; the last
eighth is for the metadata of offsets that are there. To commit such a one anew takes no room.
"""

from typing import Final

from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.logstore.words.errors import ErrorCode, KafkaError

# Beside the bytes of its value, as measured; of a topic in a group; of an offset that waits for the end of a
# transaction.
OFFSET_BYTES: Final = 120
TOPIC_BYTES: Final = 350
PENDING_BYTES: Final = 450


def have_room(offsets: ShardBytes, more_bytes: int) -> bool:
    """Return whether so much more fits, whatever it is for."""
    return offsets.fits(more_bytes, eighths=7)


def check_offsets(offsets: ShardBytes, more_bytes: int, *, is_new: bool) -> None:
    """COORDINATOR_NOT_AVAILABLE if there is no room for so much more of offsets."""
    if more_bytes > 0 and not offsets.fits(more_bytes, eighths=7 if is_new else 8):
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "committed offsets use all the memory that the broker reserves for them: raise its "
            "ottla.memory.max.bytes, or delete groups that are not used",
        )
