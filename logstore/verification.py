"""Whether a transactional batch belongs to a transaction that its coordinator knows (KIP-890).

A late batch of a transaction that has ended would open one that nobody ends. So a leader asks the coordinator
before the first batch of a transaction in its log, and takes the batch only with the `Guard` that it made
when it began to ask: the end of a transaction that arrives meanwhile takes the guard off the file. A guard
is proof by identity; two that look alike are two questions. Nothing here is durable: a new leader asks anew.
"""

from collections.abc import Iterator
from typing import Final

from ottla.logstore.producer_state import BatchMetadata, ProducerState, old_epoch
from ottla.logstore.record_batch import BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError

# First batches that wait in one log at a time. A hostile client can ask for any number of ids; the oldest
# question then loses its guard, and its batch is refused.
MAX_GUARDS: Final = 100_000
GUARDS_AT_ONCE: Final = 1_000  # of those that are looked at whether they are old: 0.5 us each


class Guard:
    """A question to the coordinator about one producer. Those that ask in the same epoch share one, so that
    the lowest of their sequences goes first.
    """

    __slots__ = ("bumps_epoch", "created_ms", "lowest_sequence", "producer_epoch", "producer_id")

    def __init__(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        lowest_sequence: int,
        bumps_epoch: bool,
        created_ms: int,
    ) -> None:
        """`bumps_epoch`: the client gets a new epoch with each transaction (transaction.version 2)."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.bumps_epoch = bumps_epoch
        self.created_ms = created_ms


# For a leader that does not ask (transaction.partition.verification.enable=false).
NOT_VERIFIED: Final = Guard(
    producer_id=-1, producer_epoch=-1, lowest_sequence=2**31 - 1, bumps_epoch=False, created_ms=-1
)


class Verifications:
    """The guards of one log, at most one an epoch of a producer."""

    __slots__ = ("_count", "_guards", "_producers")

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        # By producer, oldest first, and epoch: whoever asks with an epoch that its producer never had is
        # refused by the coordinator, and must not stand in that producer's way meanwhile, or after.
        self._guards: dict[int, dict[int, Guard]] = {}
        self._count = 0

    def of(self, producer_id: int, producer_epoch: int) -> Guard | None:
        """The guard on file."""
        return self._guards.get(producer_id, {}).get(producer_epoch)

    def begin(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> Guard | None:
        """The guard to append with once the coordinator has said yes; None: a transaction of this epoch is
        open, there is nothing to ask. INVALID_PRODUCER_EPOCH from a fenced producer.
        """
        producers = self._producers
        producers.check_epoch(producer_id, producer_epoch)
        if producers.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        guard = self.of(producer_id, producer_epoch)
        if guard is not None:
            guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
            return guard
        if self._count >= MAX_GUARDS:
            self._leave(next(iter(self._guards)), {})
        guard = Guard(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            lowest_sequence=base_sequence,
            bumps_epoch=bumps_epoch,
            created_ms=now_ms,
        )
        self._guards.setdefault(producer_id, {})[producer_epoch] = guard
        self._count += 1
        return guard

    def check_first(
        self, header: BatchHeader, guard: Guard | None, *, is_client: bool
    ) -> BatchMetadata | None:
        """Whether a leader may append this as the first batch of a transaction: None, or what it duplicates.

        INVALID_TXN_STATE unless `guard` is on file; OUT_OF_ORDER_SEQUENCE_NUMBER where an earlier batch of
        the transaction still waits, or a transaction with an epoch of its own does not begin at 0; the rest
        as `ProducerState.check_batch`.
        """
        producers = self._producers
        producer_id, sequence = header.producer_id, header.base_sequence
        entry = producers.entries.get(producer_id)
        if entry is not None:
            if header.producer_epoch < entry.epoch:
                raise old_epoch(producer_id, header.producer_epoch, entry.epoch)
            if is_client and header.producer_epoch == entry.epoch:
                duplicate = producers.duplicate_of(entry, header)
                if duplicate is not None:
                    return duplicate
        self._check_on_file(producer_id, header.producer_epoch, guard)
        if is_client:
            assert guard is not None
            has_history = entry is not None and bool(entry.batches)
            # Of a producer that it knows the log knows what is next. The lowest may then be a late copy's
            # of a batch long since written, which would keep all that follow from the log.
            is_overtaken = entry is None and sequence > guard.lowest_sequence
            if is_overtaken or (guard.bumps_epoch and sequence and not has_history):
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} began a transaction with sequence "
                    f"{sequence}, but sequence "
                    f"{0 if guard.bumps_epoch else guard.lowest_sequence} must come "
                    "first.",
                )
        return producers.check_batch(header, is_client=is_client)

    def check(self, producer_id: int, producer_epoch: int, guard: Guard | None) -> None:
        """Whether a coordinator may write for this producer now: INVALID_PRODUCER_EPOCH if it is fenced,
        INVALID_TXN_STATE if neither a transaction of this epoch is open nor `guard` on file.
        """
        producers = self._producers
        producers.check_epoch(producer_id, producer_epoch)
        if not producers.has_ongoing_transaction(producer_id, producer_epoch):
            self._check_on_file(producer_id, producer_epoch, guard)

    def _check_on_file(self, producer_id: int, producer_epoch: int, guard: Guard | None) -> None:
        if guard is not NOT_VERIFIED and (guard is None or self.of(producer_id, producer_epoch) is not guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"The batch of producer {producer_id} is not part of a transaction.",
            )

    def data_appended(self, producer_id: int, producer_epoch: int) -> None:
        """The first batch of a transaction is in the log: nobody has to ask any more in this epoch."""
        guards = self._guards.get(producer_id)
        if guards is not None:
            self._leave(producer_id, {at: one for at, one in guards.items() if at > producer_epoch})

    def marker_appended(self, producer_id: int, producer_epoch: int) -> None:
        """A transaction has ended: what was asked for it is void."""
        guards = self._guards.get(producer_id)
        # A marker carries a newer epoch than its transaction, and the client goes on with that, or from a
        # prepared transaction (KIP-939) with a newer one still: a guard of these asks for what follows.
        if guards is not None:
            self._leave(
                producer_id,
                {at: one for at, one in guards.items() if one.bumps_epoch and at >= producer_epoch},
            )

    def clear(self) -> None:
        """The log begins anew elsewhere: what ended in what is left out is not known."""
        self._guards.clear()
        self._count = 0

    def remove_expired(self, now_ms: int, expiration_ms: int) -> Iterator[None]:
        """Forget the questions that are as old as the producers that are forgotten, some at a time."""
        oldest_ms = now_ms - expiration_ms
        for count, (producer_id, guards) in enumerate(list(self._guards.items()), 1):
            # Others come and go between two steps.
            is_here = self._guards.get(producer_id) is guards
            if is_here and any(one.created_ms <= oldest_ms for one in guards.values()):
                self._leave(
                    producer_id, {at: one for at, one in guards.items() if one.created_ms > oldest_ms}
                )
            if count % GUARDS_AT_ONCE == 0:
                yield

    def _leave(self, producer_id: int, left: dict[int, Guard]) -> None:
        """Of the guards of a producer only these stay."""
        self._count -= len(self._guards[producer_id]) - len(left)
        if left:
            self._guards[producer_id] = left
        else:
            del self._guards[producer_id]
