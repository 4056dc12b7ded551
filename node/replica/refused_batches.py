"""Batches of idempotent producers that a replica has refused as it did not lead yet, for a moment.

A producer has several requests on their way. When the first is refused and the replica leads once the second
comes, that one is out of order, through nobody's fault; or it is taken for its producer's first, if the log
does not know the producer, and the first is out of order for ever. Told so, librdkafka takes a new epoch and
sends all anew that is not acknowledged, also to other partitions: what one of these had taken already is
there twice then. Refused like the first, both are sent again in their order.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.logstore.record_batch import NO_PRODUCER_ID, BatchHeader, read_header
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import ByteSource

# For so long a request may have been on its way behind a refused one. Clients ask again after some 0.1 s.
WINDOW_MS: Final = 1_000
MAX_PRODUCERS: Final = 1_000  # of a partition; what others send is judged by its sequence alone


class _Refused(NamedTuple):
    producer_epoch: int
    sequence: int
    at_ms: int


class RefusedBatches:
    """Those of one partition: of each producer the first."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}  # the oldest first

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def note(self, records: ByteSource, now_ms: int) -> None:
        """A batch is refused because this replica does not lead."""
        self._forget_old(now_ms)
        header = _idempotent(records)
        if header is None:
            return
        before = self._by_producer.get(header.producer_id)
        if before is not None and (
            before.producer_epoch > header.producer_epoch
            or (before.producer_epoch == header.producer_epoch and before.sequence < header.base_sequence)
        ):
            return
        self._by_producer.pop(header.producer_id, None)
        if len(self._by_producer) >= MAX_PRODUCERS:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[header.producer_id] = _Refused(header.producer_epoch, header.base_sequence, now_ms)

    def holds_back(self, records: ByteSource, now_ms: int, last_sequence: Callable[[int, int], int]) -> bool:
        """Whether a batch for the leader is behind one that was refused and that the log does not have yet.

        `last_sequence` tells what the log has of a producer id and epoch: the refused one may have come here,
        or by way of another leader.
        """
        self._forget_old(now_ms)
        header = _idempotent(records)
        before = None if header is None else self._by_producer.get(header.producer_id)
        if header is None or before is None or before.producer_epoch != header.producer_epoch:
            return False
        if last_sequence(header.producer_id, header.producer_epoch) >= before.sequence:
            del self._by_producer[header.producer_id]
            return False
        return before.sequence < header.base_sequence

    def _forget_old(self, now_ms: int) -> None:
        while self._by_producer:
            producer_id, oldest = next(iter(self._by_producer.items()))
            if 0 <= now_ms - oldest.at_ms <= WINDOW_MS:  # a clock that was set back ends it, too
                return
            del self._by_producer[producer_id]


def _idempotent(records: ByteSource) -> BatchHeader | None:
    """The header of a batch that has a place in its producer's order; None of any other bytes."""
    try:
        header = read_header(records)
    except KafkaError:
        return None
    return header if header.producer_id != NO_PRODUCER_ID and header.base_sequence >= 0 else None
