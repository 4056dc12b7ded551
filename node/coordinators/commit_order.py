"""Which commits of offsets in a transaction are copies that come late.

Nothing in TxnOffsetCommit says which of two is the later one, but for the producer's epoch, and that is the
same within a transaction and, of older clients, in the next one. A client that hears no answer sends the
request again over a new connection; a copy that arrives over the old one, after a later commit, would take
the group back, and what it had read would be read, and copied, once more.
"""

from typing import Final, NamedTuple

from ottla.groupcoord.offsets.offset_commands import Producer

# Groups with a producer that are remembered, some 200 bytes each; who committed longest ago goes first.
MAX_REMEMBERED: Final = 10_000


class _Last(NamedTuple):
    """In which epoch a producer committed last, and over which connection of this node."""

    producer_epoch: int
    connection_number: int


class CommitOrder:
    """What producers committed over last, by group. Soft: another process has other connections."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], _Last] = {}

    def is_late(self, group_id: str, producer: Producer, connection_number: int) -> bool:
        """Whether this instance of a producer has committed over a connection that was accepted later than
        this one; if not, this is the one to compare with from now on.
        """
        key = (group_id, producer.producer_id)
        last = self._last.pop(key, None)
        this = _Last(producer.producer_epoch, connection_number)
        is_late = last is not None and this.producer_epoch == last.producer_epoch and this < last
        self._last[key] = last if last is not None and this < last else this
        if len(self._last) > MAX_REMEMBERED:
            del self._last[next(iter(self._last))]
        return is_late
