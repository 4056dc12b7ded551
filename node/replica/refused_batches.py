"""Batches of idempotent producers that a replica rejected because it did not lead yet, remembered briefly.

A producer has several requests in flight. If the first is rejected and the replica leads when the second
arrives, the second is out of order through no fault of the producer. If the log does not know the producer,
the second is even accepted as its first batch, and the real first one is out of order forever. librdkafka
reacts to that error with a new epoch, and sends everything unacknowledged again, also to other partitions,
where records that were already accepted are then duplicated. If the second is rejected like the first, both
are sent again in order.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.logstore.record_batch import NO_PRODUCER_ID, BatchHeader, read_header
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import ByteSource

# The longest time that a request is expected to arrive after a rejected one. Clients retry after some 0.1 s.
WINDOW_MS: Final = 1_000
MAX_PRODUCERS: Final = 1_000  # of a partition; beyond that the producer rejected the longest ago is forgotten


class _Refused(NamedTuple):
    producer_epoch: int
    sequence: int
    at_ms: int


class RefusedBatches:
    """The rejected batches of one partition: the first of each producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}  # the oldest first

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def note(self, records: ByteSource, now_ms: int) -> None:
        """Remember a batch that is rejected because this replica does not lead."""
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
        """Return True if a batch follows a rejected one that the log does not have yet.

        `last_sequence` returns the last sequence in the log of a producer id and epoch: the rejected batch
        may have arrived here since, or through another leader.
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
    """Return the header of a batch with a sequence number, None for any other bytes."""
    try:
        header = read_header(records)
    except KafkaError:
        return None
    return header if header.producer_id != NO_PRODUCER_ID and header.base_sequence >= 0 else None
