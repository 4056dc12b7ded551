"""The verification that a transactional batch belongs to an ongoing transaction of its coordinator (KIP-890).

A late batch of a transaction that has ended would open a hanging transaction. So a leader asks the
coordinator before it appends the first batch of a transaction to its log, and registers a `Guard` when it
begins to ask. It appends the batch only if that guard is still registered: a marker that ends the transaction
meanwhile removes it. Guards are compared by identity: two with equal fields stand for two verifications.
Nothing here is durable; a new leader asks again.
"""

from collections.abc import Iterator
from typing import Final

from ottla.logstore.producer_state import BatchMetadata, ProducerState, old_epoch
from ottla.logstore.record_batch import BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError

# First batches that wait in one log at a time. A hostile client can use any number of producer ids; then the
# oldest verification loses its guard, and its batch is rejected.
MAX_GUARDS: Final = 100_000
GUARDS_AT_ONCE: Final = 1_000  # guards that are checked for their age at once: 0.5 us each


class Guard:
    """A verification of one producer at the coordinator.

    All batches of the same epoch share one guard, so that the batch with the lowest sequence is appended
    first.
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
        """Create a guard; `bumps_epoch` if each transaction has a new epoch (transaction.version 2)."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.bumps_epoch = bumps_epoch
        self.created_ms = created_ms


# The guard of a leader that does not verify (transaction.partition.verification.enable=false).
NOT_VERIFIED: Final = Guard(
    producer_id=-1, producer_epoch=-1, lowest_sequence=2**31 - 1, bumps_epoch=False, created_ms=-1
)


class Verifications:
    """The registered guards of one log, at most one for each epoch of a producer."""

    __slots__ = ("_count", "_guards", "_producers")

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        # By producer, oldest first, and epoch. The coordinator rejects an epoch that the producer never had;
        # such a request must not block the producer itself, neither meanwhile nor afterwards.
        self._guards: dict[int, dict[int, Guard]] = {}
        self._count = 0

    def find(self, producer_id: int, producer_epoch: int) -> Guard | None:
        """Return the registered guard of this epoch, or None."""
        return self._guards.get(producer_id, {}).get(producer_epoch)

    def begin(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> Guard | None:
        """Register and return the guard to append with once the coordinator has confirmed the transaction.

        None if a transaction of this epoch is open in the log, so that no verification is needed.
        INVALID_PRODUCER_EPOCH for a fenced producer.
        """
        producers = self._producers
        producers.check_epoch(producer_id, producer_epoch)
        if producers.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        guard = self.find(producer_id, producer_epoch)
        if guard is not None:
            guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
            return guard
        if self._count >= MAX_GUARDS:
            self._keep_only(next(iter(self._guards)), {})
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
        """Check the first batch of a transaction before a leader appends it.

        Return the batch that it duplicates, or None if it may be appended. INVALID_TXN_STATE unless `guard`
        is registered; OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch of the transaction still waits, or if
        a transaction with its own epoch does not begin at sequence 0; further checks as in
        `ProducerState.check_batch`.
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
        self._check_verified(producer_id, header.producer_epoch, guard)
        if is_client:
            assert guard is not None
            has_history = entry is not None and bool(entry.batches)
            # For a producer with state, the log knows the next sequence. The lowest sequence of the guard may
            # be that of a late copy of an old batch, which would keep all later batches out.
            is_out_of_order = entry is None and sequence > guard.lowest_sequence
            if is_out_of_order or (guard.bumps_epoch and sequence and not has_history):
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} began a transaction with sequence "
                    f"{sequence}, but sequence "
                    f"{0 if guard.bumps_epoch else guard.lowest_sequence} must come "
                    "first.",
                )
        return producers.check_batch(header, is_client=is_client)

    def check(self, producer_id: int, producer_epoch: int, guard: Guard | None) -> None:
        """Check that a coordinator may write for this producer now.

        INVALID_PRODUCER_EPOCH if the producer is fenced; INVALID_TXN_STATE if no transaction of this epoch is
        open and `guard` is not registered.
        """
        producers = self._producers
        producers.check_epoch(producer_id, producer_epoch)
        if not producers.has_ongoing_transaction(producer_id, producer_epoch):
            self._check_verified(producer_id, producer_epoch, guard)

    def _check_verified(self, producer_id: int, producer_epoch: int, guard: Guard | None) -> None:
        if guard is not NOT_VERIFIED and (
            guard is None or self.find(producer_id, producer_epoch) is not guard
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"The batch of producer {producer_id} is not part of a transaction.",
            )

    def data_appended(self, producer_id: int, producer_epoch: int) -> None:
        """Remove the guards up to this epoch, as the first batch of the transaction is in the log."""
        guards = self._guards.get(producer_id)
        if guards is not None:
            self._keep_only(producer_id, {at: one for at, one in guards.items() if at > producer_epoch})

    def marker_appended(self, producer_id: int, producer_epoch: int) -> None:
        """Remove the guards of a transaction that has ended, as their verifications are void."""
        guards = self._guards.get(producer_id)
        # With transaction.version 2 a marker has a newer epoch than its transaction, and the client continues
        # with that epoch, or after a prepared transaction (KIP-939) with a still newer one. Guards of these
        # epochs are for the next transaction, and stay.
        if guards is not None:
            self._keep_only(
                producer_id,
                {at: one for at, one in guards.items() if one.bumps_epoch and at >= producer_epoch},
            )

    def clear(self) -> None:
        """Remove all guards, as the log starts afresh at another offset: skipped markers are unknown."""
        self._guards.clear()
        self._count = 0

    def remove_expired(self, now_ms: int, expiration_ms: int) -> Iterator[None]:
        """Remove the guards that are as old as expired producers; yield after some at a time."""
        oldest_ms = now_ms - expiration_ms
        for count, (producer_id, guards) in enumerate(list(self._guards.items()), 1):
            # Guards may be added and removed between two steps.
            is_here = self._guards.get(producer_id) is guards
            if is_here and any(one.created_ms <= oldest_ms for one in guards.values()):
                self._keep_only(
                    producer_id, {at: one for at, one in guards.items() if one.created_ms > oldest_ms}
                )
            if count % GUARDS_AT_ONCE == 0:
                yield

    def _keep_only(self, producer_id: int, left: dict[int, Guard]) -> None:
        """Keep only these guards of a producer."""
        self._count -= len(self._guards[producer_id]) - len(left)
        if left:
            self._guards[producer_id] = left
        else:
            del self._guards[producer_id]
