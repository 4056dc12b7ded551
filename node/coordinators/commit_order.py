"""Finds commits of offsets in a transaction that are late copies of a request.

Only the producer's epoch in TxnOffsetCommit tells an earlier request from a later one, and it is the same
within a transaction and, with older clients, in the next transaction. A client that gets no response sends
the request again over a new connection. If the first copy arrived over the old connection after a later
commit, it would set the group back, and records would be read and copied twice.
"""

from typing import Final, NamedTuple

from ottla.groupcoord.offsets.offset_commands import Producer

# Pairs of a group and a producer that are remembered, some 200 bytes each; the least recent goes first.
MAX_REMEMBERED: Final = 10_000


class _Last(NamedTuple):
    """The epoch of a producer's last commit, and the connection of this node that it came over."""

    producer_epoch: int
    connection_number: int


class CommitOrder:
    """The last connection of each producer, by group. Soft state: another process has other connections."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], _Last] = {}

    def is_late(self, group_id: str, producer: Producer, connection_number: int) -> bool:
        """Return True if the producer has committed in this epoch over a connection accepted after this one.

        Otherwise remember this connection for later calls, unless a commit in a newer epoch came before.
        """
        key = (group_id, producer.producer_id)
        last = self._last.pop(key, None)
        this = _Last(producer.producer_epoch, connection_number)
        is_late = last is not None and this.producer_epoch == last.producer_epoch and this < last
        self._last[key] = last if last is not None and this < last else this
        if len(self._last) > MAX_REMEMBERED:
            del self._last[next(iter(self._last))]
        return is_late
