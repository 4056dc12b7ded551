"""Bytes that one shard holds of one kind, counted for all shards of a node together."""

from dataclasses import dataclass


@dataclass(slots=True)
class NodeBytes:
    """The bytes of all shards of a node."""

    limit_bytes: int = 2**63 - 1
    used_bytes: int = 0


class ShardBytes:
    """The bytes of one shard; the shard reports each change by `add`."""

    __slots__ = ("_node", "total")

    def __init__(self) -> None:
        self._node = NodeBytes()
        self.total = 0

    def attach(self, node: NodeBytes) -> None:
        """Add the bytes to the count of a node: the shard, perhaps loaded in a thread, is in use."""
        node.used_bytes += self.total
        self._node = node

    def detach(self) -> None:
        """Remove the bytes from the count of the node: the shard is no longer in use."""
        self._node.used_bytes -= self.total
        self._node = NodeBytes()

    def add(self, change: int) -> None:
        """Count `change` more bytes, or fewer if it is negative."""
        self.total += change
        self._node.used_bytes += change

    def fits(self, more_bytes: int, *, eighths: int) -> bool:
        """Return True if `more_bytes` fit into this many eighths of the node's limit."""
        return self._node.used_bytes + more_bytes <= self._node.limit_bytes * eighths // 8
