"""Bytes of committed offsets, and their limit: for all shards of a node.

An offset stays until it expires, is deleted, or its group is. Whoever commits for a partition that the group
has no offset of is told COORDINATOR_NOT_AVAILABLE when there is no room, which clients try again; the last
eighth is for the metadata of offsets that are there. To commit such a one anew takes no room.
"""

from dataclasses import dataclass
from typing import Final

from logstore.errors import ErrorCode, KafkaError

# Beside the bytes of its value, as measured; of a topic in a group; of an offset that waits for the end of a
# transaction.
OFFSET_BYTES: Final = 120
TOPIC_BYTES: Final = 300
PENDING_BYTES: Final = 450


@dataclass(slots=True)
class NodeOffsets:
    """Of all shards of a node."""

    limit_bytes: int = 2**63 - 1
    used_bytes: int = 0


class OffsetBytes:
    """Of one shard, which keeps `total` in step by `set`."""

    __slots__ = ("_node", "total")

    def __init__(self) -> None:
        self._node = NodeOffsets()
        self.total = 0

    def attach(self, node: NodeOffsets) -> None:
        """Count in those of a node from now on: the shard is loaded, which may have been done in a thread."""
        node.used_bytes += self.total
        self._node = node

    def detach(self) -> None:
        """The shard is used no more, and nor is what its offsets took."""
        self._node.used_bytes -= self.total
        self._node = NodeOffsets()

    def set(self, total: int) -> None:
        """The offsets of the shard take so much now."""
        self._node.used_bytes += total - self.total
        self.total = total

    def has_room(self, more_bytes: int) -> bool:
        """Return whether so much more fits, whatever it is for."""
        return self._node.used_bytes + more_bytes <= self._node.limit_bytes * 7 // 8

    def check(self, more_bytes: int, *, is_new: bool) -> None:
        """COORDINATOR_NOT_AVAILABLE if there is no room for so much more."""
        eighths = 7 if is_new else 8
        if more_bytes > 0 and self._node.used_bytes + more_bytes > self._node.limit_bytes * eighths // 8:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "committed offsets have all the memory that they may"
            )
