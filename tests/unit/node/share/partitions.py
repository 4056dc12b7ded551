"""Share-partitions for tests, with logs of batches, and members that acknowledge records."""

from collections.abc import Sequence
from typing import Final

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey, StateBatch, StateRead
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchedRecords,
    Outcome,
    ShareConfig,
    ShareLimits,
)

KEY: Final = SharePartitionKey("workers", bytes(range(16)), 0)
NOW_MS: Final = 1_700_000_000_000
LOCK_MS: Final = 30_000
ALL: Final = 2**31 - 1

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED, WAITING = 0, 1, 2, 4, 5
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Partition:
    """A share-partition and its log, by default of batches of ten records."""

    def __init__(
        self,
        *,
        config: ShareConfig | None = None,
        limits: ShareLimits | None = None,
        log: Sequence[tuple[int, int]] = tuple((first, first + 9) for first in range(0, 1000, 10)),
        start_offset: int = 0,
        batches: Sequence[StateBatch] = (),
    ) -> None:
        self.core = SharePartition(KEY, 7, config or ShareConfig(), limits or ShareLimits())
        self.log = list(log)
        self.now_ms = NOW_MS
        self.never_delivered: list[tuple[int, int]] = []
        read = StateRead(KEY, state_epoch=3, start_offset=start_offset, batches=tuple(batches))
        self.core.restore(read, 0)
        self.check()

    def fetch(
        self,
        member: str = "m1",
        *,
        max_records: int = ALL,
        batch_size: int = ALL,
        is_strict: bool = False,
        up_to: int | None = None,
    ) -> list[tuple[int, int, int]]:
        """Acquire from one batch at the next fetch offset, or from all batches that begin up to an offset."""
        fetch_offset = self.core.next_fetch_offset()
        read = [batch for batch in self.log if batch[1] >= fetch_offset]
        read = read[:1] if up_to is None else [batch for batch in read if batch[0] <= up_to]
        fetched = FetchedRecords(
            fetch_offset=fetch_offset,
            base_offsets=[first for first, _ in read],
            last_offsets=[last for _, last in read],
            never_delivered=self.never_delivered,
        )
        acquired = self.core.acquire(member, self.now_ms, fetched, max_records, batch_size, is_strict)
        self.check()
        assert all(isinstance(each, AcquiredRecords) for each in acquired)
        return [tuple(each) for each in acquired]

    def begin_acknowledge(self, first: int, last: int, *types: int, member: str = "m1") -> Outcome:
        """Acknowledge records by a member, without writing the outcome yet."""
        outcome = self.core.acknowledge(member, [AcknowledgementBatch(first, last, types)], self.now_ms)
        self.check()
        return outcome

    def complete_write(self, outcome: Outcome, *, is_written: bool = True) -> bool:
        """Pass the result of a write to the partition."""
        assert outcome.transition is not None, outcome
        if is_written:
            there_is_more = self.core.persisted(outcome.transition, self.now_ms)
        else:
            there_is_more = self.core.failed(outcome.transition)
        self.check()
        return there_is_more

    def acknowledge(self, first: int, last: int, *types: int, member: str = "m1") -> bool:
        """Acknowledge records by a member, and write the outcome."""
        return self.complete_write(self.begin_acknowledge(first, last, *types, member=member))

    def wait(self, duration_ms: int) -> Outcome:
        """Advance the clock, and let locks and waits end."""
        self.now_ms += duration_ms
        self.core.free_due(self.now_ms)
        outcome = self.core.expire(self.now_ms)
        self.check()
        return outcome

    @property
    def states(self) -> list[tuple[int, int, int, int]]:
        return [tuple(each) for each in self.core.states()]

    @property
    def window(self) -> tuple[int, int]:
        return self.core.start_offset, self.core.end_offset

    def check(self) -> None:
        self.core.check_invariants()
