"""Bytes that one shard holds of one kind, counted among those of all shards of a node."""

from dataclasses import dataclass


@dataclass(slots=True)
class NodeBytes:
    """The bytes of all shards of a node."""

    limit_bytes: int = 2**63 - 1
    used_bytes: int = 0


class ShardBytes:
    """The bytes of one shard, which keeps `total` in step by `add`."""

    __slots__ = ("_node", "total")

    def __init__(self) -> None:
        self._node = NodeBytes()
        self.total = 0

    def attach(self, node: NodeBytes) -> None:
        """Count in those of a node from now on: the shard is loaded, which may have been done in a thread."""
        node.used_bytes += self.total
        self._node = node

    def detach(self) -> None:
        """Count nowhere: the shard is used no more."""
        self._node.used_bytes -= self.total
        self._node = NodeBytes()

    def add(self, change: int) -> None:
        """Count so many more, or fewer."""
        self.total += change
        self._node.used_bytes += change

    def fits(self, more_bytes: int, *, eighths: int) -> bool:
        """Return whether so many more fit into so many eighths of what the node may have."""
        return self._node.used_bytes + more_bytes <= self._node.limit_bytes * eighths // 8
