"""A share-partition whose leaders fail at any step of writing dead letters.

The share coordinator and the log of dead letters are real. Between any two steps a leader may fail; a write
or a batch may be lost, may be done without a response, or may arrive when another node leads already. `check`
has the invariants: a record whose rejection was acknowledged is in the log of dead letters once, and no
record is there twice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar, cast

from ottla.groupcoord.share_state.share_state_words import ReadState, StateResult, WriteState
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.record import build_batch, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.clock import ManualClock
from ottla.node.counters.share_counters import ShareCounters
from ottla.node.share.dead_letter_queue import DeadLetterQueue, DeadLetterWorld
from ottla.node.share.dead_letter_topic import Destination
from ottla.node.share.dead_letters import read_note
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.record_state import RecordState
from ottla.node.share.share_group_settings import DeadLetterSettings
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    AcknowledgementBatch,
    FetchedRecords,
    Outcome,
    ShareConfig,
    ShareLimits,
)
from ottla.node.wire.dead_letter_headers import OFFSET
from tests.unit.groupcoord.share_state.share_state_world import KEY, ShareStateWorld

CONFIG: Final = ShareConfig(
    record_lock_duration_ms=1_000, delivery_count_limit=3, partition_max_record_locks=200, sets_aside=True
)
RECORDS: Final = 60
ACCEPT, RELEASE, REJECT = 1, 2, 3
LETTERS_ID: Final = b"dlq.topic".ljust(16, b".")
# Fewer failures in a row than a leader makes attempts; after more it may give up.
MAX_FAILURES: Final = 3

T = TypeVar("T")


class LeaderFailed(Exception):
    """The leader has failed."""


def open_log(disk: MemoryDisk, name: str) -> PartitionLog:
    directory = Path("/data") / f"{name}-0"
    disk.make_directory(directory)
    return PartitionLog.open(
        disk=disk,
        directory=directory,
        topic_partition=TopicPartition(name, 0),
        topic_id=LETTERS_ID,
        config=LogConfig(),
        now_ms=0,
        clean_shutdown=False,
    )


class Cluster:
    """The state that survives a leader."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.coordinator = ShareStateWorld()
        self.coordinator.initialize()
        self.disk = MemoryDisk()
        self.source, self.letters = open_log(self.disk, "source"), open_log(self.disk, "dlq.topic")
        self.batches: list[tuple[int, int]] = []
        while self.source.log_end_offset < RECORDS:
            count = min(self.random.choice([1, 1, 2, 5]), RECORDS - self.source.log_end_offset)
            rows = [(b"k", b"v", 0, ())] * count
            result = self.source.append_as_leader(build_batch(rows), leader_epoch=0, now_ms=0)
            self.batches.append((result.base_offset, result.last_offset))
        self.late: list[Callable[[], object]] = []
        self.is_calm = False
        self.failures = 0
        self.producer_id = 100
        self.epoch = 0
        self.set_aside: set[int] = set()  # records whose rejection was acknowledged
        self.may_be_set_aside: set[int] = set()

    def elect(self) -> "Leader":
        """Return a new leader that has read the coordinator's state, which fences the previous one."""
        self.epoch += 1
        return Leader(self, self.epoch)

    async def call(self, effect: Callable[[], T], *, lost: T | KafkaError, unanswered: T | KafkaError) -> T:
        """Run an effect at another node; it, or its response, may be lost or late, or the leader may fail."""
        await asyncio.sleep(0)
        chance = 1.0 if self.is_calm else self.random.random()
        if chance < 0.05:
            raise LeaderFailed
        if chance < 0.10:
            effect()
            raise LeaderFailed
        if chance < 0.15:
            self.late.append(effect)
            raise LeaderFailed
        if chance < 0.35 and self.failures < MAX_FAILURES:
            self.failures += 1
            if chance < 0.22:
                return raise_or_return(lost)
            if chance < 0.28:
                self.late.append(effect)
            else:
                effect()
            return raise_or_return(unanswered)
        self.failures = 0
        answer = effect()
        await asyncio.sleep(0)
        if not self.is_calm and self.random.random() < 0.03:
            raise LeaderFailed
        return answer

    def deliver_late(self) -> None:
        """Deliver one of the late requests, whichever leader sent it."""
        if self.late:
            try:
                self.late.pop(self.random.randrange(len(self.late)))()
            except KafkaError:
                pass  # it is rejected, and no leader waits for the response

    def reopen_letters(self) -> None:
        """Restart the leader of the dead letters, which reads its log again."""
        self.letters = open_log(self.disk, "dlq.topic")

    def write(self, request: WriteState) -> StateResult:
        answer = self.coordinator.ask(request)
        assert isinstance(answer, StateResult)
        return answer

    def append(self, batch: bytearray) -> None:
        self.letters.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=self.clock.now_ms())

    def written(self) -> Counter[int]:
        """Return the number of letters in the log of dead letters, by the offset of the record."""
        log, counts = self.letters, Counter[int]()
        found = log.read(0, 1 << 30, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
        content = found.slice.read()
        for position, header in iterate_headers(content):
            for record in iterate_records(memoryview(content)[position : position + header.size_bytes]):
                counts[int(dict(record.headers)[OFFSET] or b"-1")] += 1
        return counts

    def check(self) -> None:
        """Assert that each rejected record has one letter, and at most one if the response was lost."""
        written = self.written()
        assert set(written.values()) <= {1}, f"written twice: {written}"
        missing = self.set_aside - written.keys()
        assert not missing, f"never written: {sorted(missing)}"
        others = written.keys() - self.set_aside - self.may_be_set_aside
        assert not others, f"never set aside: {sorted(others)}"
        state = self.coordinator.read(leader_epoch=-1)
        assert (state.start_offset, read_note(state.dead_letters).letters) == (RECORDS, None), state


@dataclass
class Source:
    """The partition whose records are shared, with the attributes that dead letters need."""

    log: PartitionLog
    leader_epoch: int = 0
    topic_partition: TopicPartition = TopicPartition("source", 0)


class Leader:
    """A node that leads the share-partition."""

    def __init__(self, cluster: Cluster, epoch: int) -> None:
        self.cluster = cluster
        self.core = SharePartition(KEY, epoch, CONFIG, ShareLimits())
        answer = cluster.coordinator.ask(ReadState(KEY, epoch))
        self.core.restore(cast(Any, answer), 0)
        self.led = LedPartition(self.core, cast(Any, Source(cluster.source)), cast(Any, None), 0)
        self.task: asyncio.Task[None] | None = None
        self.queue = DeadLetterQueue(
            world=DeadLetterWorld(
                destination=lambda *_: Destination("dlq.topic", LETTERS_ID, 0, 1 << 20),
                max_message_bytes=lambda _: 1 << 20,
                create_topic=lambda _: asyncio.sleep(0),
                next_producer_id=self._next_producer_id,
                produce=self._produce,
                clock=cluster.clock,
                in_thread=self._in_thread,
                sleep=lambda _: asyncio.sleep(0),
                chance=cluster.random.random,
            ),
            persister=self,
            settings=lambda _: DeadLetterSettings(topic="dlq.topic", copies_records=True),
            counters=ShareCounters(),
            changed=lambda _: self.core.check_invariants(),
            fenced=self._fenced,
        )

    # ---- its requests to other nodes

    async def write(self, requests: Sequence[WriteState]) -> list[StateResult]:
        failed = StateResult(KEY, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        (request,) = requests
        return [await self.cluster.call(lambda: self.cluster.write(request), lost=failed, unanswered=failed)]

    async def _produce(self, topic_id: bytes, partition: int, batch: bytearray) -> None:
        await self.cluster.call(
            lambda: self.cluster.append(batch),
            lost=KafkaError(ErrorCode.NETWORK_EXCEPTION),
            unanswered=KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        )

    async def _next_producer_id(self) -> int:
        await asyncio.sleep(0)
        self.cluster.producer_id += 1
        return self.cluster.producer_id

    async def _in_thread(self, work: Callable[[], T], /) -> T:
        await asyncio.sleep(0)
        return work()

    def _fenced(self, led: LedPartition) -> None:
        led.is_gone = True

    # ---- its steps

    async def work(self) -> None:
        """Continue with the dead letters for a moment; raise LeaderFailed if the leader fails."""
        if self.task is None and self.core.has_letters:
            self.task = asyncio.ensure_future(self.queue.write_all(self.led))
        for _ in range(self.cluster.random.choice([0, 1, 3, 10])):
            await asyncio.sleep(0)
        if self.task is not None and self.task.done():
            self.task, task = None, self.task
            task.result()

    async def fail(self) -> None:
        self.led.is_gone = True
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.exception()

    def step(self) -> None:
        """Let a member fetch or acknowledge, or let locks expire."""
        random, core = self.cluster.random, self.core
        chance = random.random()
        held = [
            (max(first, core.start_offset), last)
            for first, last, _, _ in core.states()
            if core.holder_of(first) and last >= core.start_offset
        ]
        if chance < 0.5:
            self.acquire(random.choice([1, 4, 500]))
        elif chance < 0.9 and held:
            first, last = random.choice(held)
            last = random.choice([first, last])
            kind = random.choice([ACCEPT, RELEASE, REJECT, REJECT])
            self.settle(core.acknowledge("m", [AcknowledgementBatch(first, last, [kind])], self.now_ms))
        else:
            self.cluster.clock.advance(random.choice([100, 1_000]))
            outcome = core.expire(self.now_ms)
            if outcome.write is not None:
                self.settle(outcome)
        core.check_invariants()

    def acquire(self, most: int) -> list[tuple[int, int]]:
        """Acquire the available records of the next batches, at most `most`."""
        core = self.core
        offset = core.next_fetch_offset()
        read = [batch for batch in self.cluster.batches if batch[1] >= offset][:2]
        if not read or not core.may_acquire():
            return []
        fetched = FetchedRecords(offset, [first for first, _ in read], [last for _, last in read])
        acquired = core.acquire("m", self.now_ms, fetched, most, 500, True)
        core.check_invariants()
        return [(first, last) for first, last, _ in acquired]

    def settle(self, outcome: Outcome) -> None:
        """Write an outcome; the write may fail, or its response may be lost."""
        cluster, chance = self.cluster, self.cluster.random.random()
        if outcome.write is None or outcome.transition is None:
            return
        offsets = {
            offset
            for first, last, state, _ in outcome.write.batches
            if state == RecordState.ARCHIVING
            for offset in range(first, last + 1)
        }
        is_final = outcome.transition.number == 0  # the end of a lock, which is never undone
        if cluster.is_calm or chance < 0.8:
            assert cluster.write(outcome.write).error in (ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
            self.core.persisted(outcome.transition, self.now_ms)
            cluster.set_aside |= offsets
            return
        if chance < 0.9:
            cluster.write(outcome.write)
        if chance < 0.9 or is_final:
            cluster.may_be_set_aside |= offsets
        self.core.failed(outcome.transition)

    @property
    def now_ms(self) -> int:
        return self.cluster.clock.now_ms()


def raise_or_return(answer: T | KafkaError) -> T:
    if isinstance(answer, KafkaError):
        raise answer
    return answer


async def play(seed: int, steps: int = 150) -> Cluster:
    """Play random steps, then let the cluster finish without failures."""
    cluster = Cluster(seed)
    leader = cluster.elect()
    for _ in range(steps):
        try:
            leader.step()
            await leader.work()
            if cluster.random.random() < 0.03:
                raise LeaderFailed
        except LeaderFailed:
            await leader.fail()
            leader = cluster.elect()
        if cluster.random.random() < 0.2:
            cluster.deliver_late()
        if cluster.random.random() < 0.03:
            cluster.reopen_letters()
    await leader.fail()
    await finish(cluster)
    return cluster


async def finish(cluster: Cluster) -> None:
    """Let the last leader accept all remaining records and write its dead letters."""
    cluster.is_calm = True
    leader = cluster.elect()
    while cluster.late:
        cluster.deliver_late()
    for _ in range(4 * RECORDS):
        await leader.work()
        for first, last in leader.acquire(500):
            leader.settle(
                leader.core.acknowledge("m", [AcknowledgementBatch(first, last, [ACCEPT])], leader.now_ms)
            )
        cluster.clock.advance(100)
        outcome = leader.core.expire(leader.now_ms)
        leader.settle(outcome)
    while leader.core.has_letters or leader.task is not None:
        await leader.work()
    # The start offset has moved since the last write.
    cluster.write(leader.core.as_of_now(WriteState(KEY, 0, leader.core.leader_epoch, 0, 0, ())))


def run(seed: int) -> Cluster:
    async def main() -> Cluster:
        return await asyncio.wait_for(play(seed), 60)

    return asyncio.run(main())
