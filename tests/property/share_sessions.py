"""Random sessions of several members with a share-partition, as lines that other implementations can execute.

The lines are those of SharePartitionReference.java. `Session` generates them while it executes them with our
own share-partition, because a sensible session must know the records in flight.
"""

from array import array
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from ottla.groupcoord.share_state.share_state_words import (
    SharePartitionKey,
    StateBatch,
    StateRead,
    WriteState,
)
from ottla.logstore.delivery_delay import DueTimes
from ottla.logstore.record import Record, build_batch
from ottla.node.share.dead_letters import DeadLetters
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchedRecords,
    Outcome,
    ShareConfig,
    ShareLimits,
    Transition,
)
from tests.share_watch import ShareWatch

KEY: Final = SharePartitionKey("group", bytes(16), 0)
MEMBERS: Final = ("m1", "m2", "m3")
ACQUIRED: Final = 1


class Coordinator:
    """The state of one share-partition at its share coordinator."""

    def __init__(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        self.start_offset = start_offset
        self.dead_letters = b""
        self.states = {offset: each[2:] for each in batches for offset in range(each[0], each[1] + 1)}

    def write(self, write: WriteState) -> None:
        """Apply a write, and drop the states below the start offset."""
        if write.dead_letters is not None:
            self.dead_letters = write.dead_letters
        for first, last, state, count in write.batches:
            self.states.update(dict.fromkeys(range(first, last + 1), (state, count)))
        self.start_offset = max(self.start_offset, write.start_offset)
        self.states = {offset: each for offset, each in self.states.items() if offset >= self.start_offset}

    def read(self) -> StateRead:
        batches: list[StateBatch] = []
        for offset, (state, count) in sorted(self.states.items()):
            if batches and (batches[-1].last_offset + 1, *batches[-1][2:]) == (offset, state, count):
                batches[-1] = batches[-1]._replace(last_offset=offset)
            else:
                batches.append(StateBatch(offset, offset, state, count))
        return StateRead(
            KEY,
            state_epoch=3,
            start_offset=self.start_offset,
            batches=tuple(batches),
            dead_letters=self.dead_letters,
        )


class Session:
    """A session: its lines, and the answer of our share-partition to each."""

    def __init__(
        self,
        seed: int,
        *,
        has_gaps: bool = False,
        is_compacted: bool = False,
        has_aborted: bool = False,
        is_deleted: bool = False,
        is_roomy: bool = False,
        has_waits: bool = False,
        has_failovers: bool = False,
        has_dead_letters: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.config = ShareConfig(
            record_lock_duration_ms=self.random.choice([100, 1_000]),
            delivery_count_limit=self.random.choice([2, 3, 5, 6, 10]),
            partition_max_record_locks=10_000 if is_roomy else self.random.choice([10, 40, 200]),
            retry_backoff_ms=self.random.choice([0, 20, 150]) if has_waits else 0,
            retry_backoff_max_ms=400 if has_waits else 0,
            sets_aside=has_dead_letters,
        )
        self.has_dead_letters = has_dead_letters
        self.is_deleted = is_deleted
        self.deleted_to = 0
        self.has_failovers = has_failovers
        # Members acknowledge only records that they hold.
        self.is_polite = is_roomy
        self.lines: list[str] = []
        self.answers: list[str] = []
        self.waiting: list[Transition] = []
        self.watch = ShareWatch(
            lock_duration_ms=self.config.record_lock_duration_ms,
            delivery_count_limit=self.config.delivery_count_limit,
        )
        self.written: dict[int, WriteState] = {}  # by transition
        self.now_ms = 0
        self.has_aborted = has_aborted
        self.log = self._make_log(is_compacted)
        self.aborted = {first for first, _ in self.log if has_aborted and self.random.random() < 0.3}
        self.has_waits = has_waits
        self.due_ms = self._make_due_times() if has_waits else {}
        self.core = SharePartition(KEY, 7, self.config, ShareLimits())
        self._delay_delivery()
        states = self._make_states() if has_gaps else []
        start = states[0].first_offset if states else 0
        if states and self.random.random() < 0.3:
            start = max(start - self.random.randint(1, 10), 0)
        self.first_offset = start
        self.done_before = {
            offset for first, last, state, _ in states if state for offset in range(first, last + 1)
        }
        self.coordinator = Coordinator(start, states)
        self.core.restore(StateRead(KEY, state_epoch=3, start_offset=start, batches=tuple(states)), 0)
        self._answer(
            "new",
            "new",
            self.config.partition_max_record_locks,
            self.config.delivery_count_limit,
            self.config.record_lock_duration_ms,
            start,
            "".join(f"{first}-{last}:{state}:{count}," for first, last, state, count in states)[:-1] or "-",
        )

    def _make_log(self, is_compacted: bool) -> list[tuple[int, int]]:
        log = []
        first = 0
        for _ in range(120):
            last = first + self.random.choice([0, 0, 1, 4, 9, 15])
            log.append((first, last))
            first = (
                last + 1 + (self.random.randint(1, 8) if is_compacted and self.random.random() < 0.2 else 0)
            )
        return log

    def _make_due_times(self) -> dict[int, int]:
        due_ms = {}
        first = 0
        for _ in range(60):
            first += self.random.randint(0, 12)
            last = first + self.random.randint(0, 9)
            due_ms.update(dict.fromkeys(range(first, last + 1), self.random.choice([0, 100, 500, 3_000])))
            first = last + 1
        return due_ms

    def _delay_delivery(self) -> None:
        if self.has_waits:
            self.core.delay_delivery(len(self.due_ms) + 1)

    def _due_times(self, read: Sequence[tuple[int, int]]) -> list[DueTimes]:
        """Return the due times of fetched records that the share-partition does not have yet."""
        offsets = range(max(read[0][0], self.core.delays_from), read[-1][1] + 1)
        waiting = [offset for offset in offsets if self.due_ms.get(offset, 0) > self.now_ms]
        return [DueTimes(array("q", waiting), array("q", [self.due_ms[offset] for offset in waiting]))]

    def _make_states(self) -> list[StateBatch]:
        states = []
        first = self.random.choice([0, 20])
        for _ in range(self.random.randint(1, 6)):
            last = first + self.random.randint(0, 9)
            count = self.random.randint(1, self.config.delivery_count_limit - 1)
            states.append(StateBatch(first, last, self.random.choice([0, 0, 2, 4]), count))
            first = last + 1 + (self.random.randint(1, 6) if self.random.random() < 0.5 else 0)
        return states

    # ---- steps

    def play(self, steps: int) -> None:
        """Play `steps` random steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Do a random step of a member, the coordinator or the clock."""
        chance = self.random.random()
        if chance < 0.36:
            self.acquire()
        elif chance < 0.66:
            self.acknowledge()
        elif chance < 0.88:
            if self.waiting:
                self.settle()
        elif chance < 0.91:
            self.release_all()
        elif chance < 0.93 and self.is_deleted:
            self.move_log_start(self.core.start_offset + self.random.randint(1, 20))
        elif chance < 0.95 and self.has_failovers:
            self.change_leader()
        elif chance < 0.98 and self.has_dead_letters:
            self.write_dead_letters()
        else:
            self.tick()

    def acquire(self) -> None:
        member = self.random.choice(MEMBERS)
        is_strict = self.random.random() < 0.4
        batch_size = self.random.choice([1, 5, 20, 500])
        most = self.random.choice([0, 1, 3, 10, 500])
        fetch_offset = self.core.next_fetch_offset()
        read = [batch for batch in self.log if batch[1] >= fetch_offset][: self.random.choice([1, 3, 8])]
        if not read or not self.core.may_acquire():
            return
        aborted = [batch for batch in read if batch[0] in self.aborted]
        fetched = FetchedRecords(
            fetch_offset=fetch_offset,
            base_offsets=[first for first, _ in read],
            last_offsets=[last for _, last in read],
            never_delivered=aborted,
            due_times=self._due_times(read) if self.has_waits else (),
        )
        acquired = self.core.acquire(member, self.now_ms, fetched, most, batch_size, is_strict)
        self._watch_times(acquired)
        for first, last, count in acquired:
            self.watch.acquired(member, first, last, count, self.now_ms)
        acquired_ranges = "".join(f"{first}-{last}:{count}," for first, last, count in acquired)
        self._answer(
            f"acquired={acquired_ranges}",
            "acquire",
            member,
            "strict" if is_strict else "batch",
            batch_size,
            most,
            fetch_offset,
            b"".join(self._batch(first, last) for first, last in read).hex(),
            ",".join(f"{first + 1}:{first}" for first, _ in aborted) or "-",
        )

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        held = [
            (max(first, self.core.start_offset), last)
            for first, last, _, _ in self.core.states()
            if self.core.holder_of(first) == member and last >= self.core.start_offset
        ]
        if self.is_polite and not held:
            return
        batches = [self._some_batch(held) for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        outcome = self.core.acknowledge(member, batches, self.now_ms)
        if not outcome.error:
            self._watch_renewals(member, batches)
        words = ",".join(f"{first}-{last}:{'.'.join(map(str, types))}" for first, last, types in batches)
        self._answer(self._outcome_text(outcome), "ack", member, words)

    def release_all(self) -> None:
        member = self.random.choice(MEMBERS)
        self._answer(self._outcome_text(self.core.release_all(member)), "release", member)

    def tick(self) -> None:
        duration_ms = self.random.choice([1, 30, 99, 100, 1_000])
        self.now_ms += duration_ms
        self.core.free_due(self.now_ms)
        outcome = self.core.expire(self.now_ms)
        written = list(outcome.write.batches) if outcome.write else []
        if outcome.write:
            self._write(outcome.write)
        if outcome.transition is not None:
            self.core.persisted(outcome.transition, self.now_ms)
        self._answer(f"expired={ranges(written)}", "tick", duration_ms)

    def settle(self) -> None:
        number = self.random.randrange(len(self.waiting))
        transition = self.waiting.pop(number)
        is_written = self.random.random() < 0.8
        written = self.written.pop(transition.number)
        if is_written:
            self.core.persisted(transition, self.now_ms)
            self._write(written)
        else:
            self.core.failed(transition)
            if self.random.random() < 0.5 and self.has_failovers:
                # Only the response was lost.
                self.coordinator.write(written)
                for first, last, state, _ in written.batches:
                    self.done_before |= set(range(first, last + 1)) if state else set()
            # Locks that have expired meanwhile, which Kafka releases at once.
            self.core.free_due(self.now_ms)
            outcome = self.core.expire(self.now_ms)
            if outcome.write:
                self._write(outcome.write)
        self._answer("settled", "settle", number, "ok" if is_written else "failed")

    def change_leader(self) -> None:
        """Let another node lead, from the coordinator's state; each write under way was received or lost."""
        for transition in self.waiting:
            if self.random.random() < 0.5:
                self._write(self.written[transition.number])
        self.waiting.clear()
        self.written.clear()
        self.core = SharePartition(KEY, self.core.leader_epoch + 1, self.config, ShareLimits())
        self.core.restore(self.coordinator.read(), 0)
        self._delay_delivery()
        self.watch.leader_changed(self.core.start_offset)
        self.core.move_log_start(self.deleted_to)
        self._answer("elected", "elect")

    def write_dead_letters(self) -> None:
        """Archive the first records that wait for dead letters, as if their letters were written."""
        found = self.core.find_set_aside(self.random.choice([1, 2, 60]))
        if self.core.letters is None and found:
            letters = DeadLetters(
                producer_id=9, producer_epoch=0, topic_id=bytes(16), partition=0, records=tuple(found)
            )
            self._write(self.core.begin_letters(letters))
        if self.core.letters is not None and self.random.random() < 0.8:
            self._write(self.core.end_letters())
        self._answer("letters", "letters")

    def move_log_start(self, offset: int) -> None:
        self.log = [batch for batch in self.log if batch[1] >= offset]
        self.deleted_to = offset
        self.core.move_log_start(offset)
        self._answer("moved", "log", offset)

    def drain(self) -> None:
        """Let a member accept all remaining records, and assert that none was lost."""
        while self.waiting:
            self.settle()
        # First the locks expire, then the back-offs that follow.
        for _ in range(2):
            self.now_ms += 10_000
            self.core.free_due(self.now_ms)
            outcome = self.core.expire(self.now_ms)
            if outcome.write:
                self._write(outcome.write)
            self.core.persisted(Transition(0), self.now_ms)
        assert self.core.next_expiry() is None and self.core.next_due() is None
        while self.core.has_letters:
            self.write_dead_letters()
        fetches_left = 10_000
        while (fetch_offset := self.core.next_fetch_offset()) <= self.log[-1][1]:
            read = [batch for batch in self.log if batch[1] >= fetch_offset][:1]
            aborted = [batch for batch in read if batch[0] in self.aborted]
            bounds = [[first for first, _ in read], [last for _, last in read]]
            fetched = FetchedRecords(fetch_offset, *bounds, never_delivered=aborted)
            acquired = self.core.acquire("m1", self.now_ms, fetched, 500, 500, False)
            for first, last, count in acquired:
                self.watch.acquired("m1", first, last, count, self.now_ms)
                one = AcknowledgementBatch(first, last, [1])
                outcome = self.core.acknowledge("m1", [one], self.now_ms)
                assert outcome.write is not None and outcome.transition is not None, outcome
                self.core.persisted(outcome.transition, self.now_ms)
                self._write(outcome.write)
            self.core.check_invariants()
            self.watch.start_offset(self.core.start_offset)
            fetches_left -= 1
            assert fetches_left, "the members do not reach the end of the log"
        delivered = [batch for batch in self.log if batch[0] not in self.aborted]
        self.watch.none_lost(
            offset
            for first, last in delivered
            for offset in range(max(first, self.first_offset, self.deleted_to), last + 1)
            if offset not in self.done_before
        )

    # ---- the promises of share groups

    def _watch_times(self, acquired: Iterable[AcquiredRecords]) -> None:
        for first, last, _ in acquired:
            early = [each for each in range(first, last + 1) if self.due_ms.get(each, 0) > self.now_ms]
            assert not early, f"{early} at {self.now_ms}"

    def _watch_renewals(self, member: str, batches: Iterable[AcknowledgementBatch]) -> None:
        for first, last, types in batches:
            for offset in range(max(first, self.core.start_offset), last + 1):
                kind = types[offset - first] if len(types) > 1 else types[0]
                if kind == 4 and self.core.holder_of(offset) == member:
                    self.watch.renewed(member, offset, offset, self.now_ms)

    def _write(self, write: WriteState) -> None:
        self.coordinator.write(write)
        for first, last, state, count in write.batches:
            if state:
                self.watch.done(first, last)
            else:
                self.watch.released(first, last, count)

    # ---- words

    def _some_batch(self, held: Sequence[tuple[int, int]]) -> AcknowledgementBatch:
        if held and (self.is_polite or self.random.random() < 0.9):
            first, last = self.random.choice(held)
            if self.random.random() < 0.6:
                first = self.random.randint(first, last)
                last = self.random.randint(first, min(last, first + 10))
        else:
            first = self.random.randint(max(self.core.start_offset - 5, 0), self.core.end_offset + 3)
            last = first + self.random.randint(0, 6)
        types: Sequence[int] = [self.random.choice([1, 1, 1, 2, 2, 3, 0, 4])]
        if self.random.random() < 0.3:
            types = [self.random.choice([1, 1, 1, 1, 2, 2, 3, 0, 4]) for _ in range(first, last + 1)]
        return AcknowledgementBatch(first, last, types)

    def _batch(self, first: int, last: int) -> bytes:
        is_aborted = first in self.aborted
        return bytes(
            build_batch(
                [Record(first, 1000, None, b"a record")],
                base_offset=first,
                last_offset=last,
                producer_id=first + 1 if is_aborted else -1,
                producer_epoch=0 if is_aborted else -1,
                is_transactional=is_aborted,
            )
        )

    def _outcome_text(self, outcome: Outcome) -> str:
        if outcome.error:
            return outcome.error.name
        if outcome.write is None:
            return "nothing"
        assert outcome.transition is not None
        self.waiting.append(outcome.transition)
        write = outcome.write
        self.written[outcome.transition.number] = write
        return f"written={write.start_offset}/{write.delivery_complete_count}/{ranges(write.batches)}"

    def _answer(self, answer: str, *words: object) -> None:
        core = self.core
        core.check_invariants()
        self.watch.start_offset(core.start_offset)
        self.lines.append(" ".join(map(str, words)))
        start, end, following = core.start_offset, core.end_offset, core.next_fetch_offset()
        may_acquire = str(core.may_acquire()).lower()
        fields = [answer, start, end, following, may_acquire, core.delivery_complete_count, self.states()]
        self.answers.append(" ".join(map(str, fields)))

    def states(self) -> str:
        """Return the records in flight from the start offset on, with their members."""
        start = self.core.start_offset
        return merged(
            (max(first, start), last, f"{state}:{count}:{self.core.holder_of(first) or ''}")
            for first, last, state, count in self.core.states()
            if last >= start
        )


def ranges(batches: Iterable[StateBatch]) -> str:
    """Return the states as text, in the largest possible batches, in order."""
    return merged((first, last, f"{state}:{count}") for first, last, state, count in sorted(batches))


def merged(ranges_: Iterable[tuple[int, int, str]]) -> str:
    """Return ranges of offsets as text; adjacent ranges with the same words are merged."""
    result: list[tuple[int, int, str]] = []
    for first, last, words in ranges_:
        if result and result[-1][1] + 1 == first and result[-1][2] == words:
            first = result.pop()[0]
        result.append((first, last, words))
    return "".join(f"{first}-{last}:{words}," for first, last, words in result) or "-"
