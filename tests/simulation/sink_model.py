"""A model cluster in memory for the sink's protocol, and queries whose drivers and tasks fail at any request.

Committed readers must see each row once, in the order of its key. The coordinators are Apache Kafka's with
the protocol before KIP-890, in which the end of a transaction keeps the epoch.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.client.transactions import TransactionDescription
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.decisions import (
    BatchExpired,
    BatchRun,
    TransactionsLost,
    WriteDecision,
    decide_batch,
)
from ottla.pipeline.sink.driver import Driver
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.sink.slots import Names
from ottla.pipeline.sink.task_transaction import TaskTransaction
from tests.simulation.turns import Actor, Turns, pause

QUERY = UUID(int=1)
TOPIC = "t"
PARTITIONS = 2
BATCHES = 4
KEYS = 4
ROWS_PER_KEY = 2
LAST_EPOCH = 40  # low, so that epochs run out


@dataclass(frozen=True, slots=True)
class Row:
    key: int
    batch_id: int
    number: int


@dataclass(slots=True)
class Written:
    """A row in a log, with its transaction."""

    row: Row
    transaction: "Transaction"


@dataclass(slots=True, eq=False)
class Transaction:
    outcome: str = "Ongoing"


@dataclass(slots=True)
class Id:
    """A transactional id at its coordinator."""

    pair: ProducerPair
    state: str = "Empty"
    two_phase: bool = False
    was_seen_open: bool = False
    partitions: set[TopicPartition] = field(default_factory=set)
    transaction: Transaction = field(default_factory=Transaction)
    pending: tuple[str, CommittedOffset] | None = None


class ModelCluster:
    """Coordinators, logs and a group in memory; each request is a turn of its own."""

    def __init__(self, rng: random.Random, *, grants_two_phase: bool) -> None:
        self.rng = rng
        self.loses_answers = False
        self.lost_after_check = False
        self.grants_two_phase = grants_two_phase
        self.ids: dict[str, Id] = {}
        self.records: dict[str, CommittedOffset] = {}
        self.completed: dict[str, CommittedOffset] = {}
        self.logs: dict[TopicPartition, list[Written]] = {
            TopicPartition(TOPIC, index): [] for index in range(PARTITIONS)
        }
        self._next_id = 0

    # ---- methods of SinkCluster -----------------------------------------------------------------

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> dict[str, ProducerPair]:
        assert timeout_ms > 0
        if two_phase and not self.grants_two_phase:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "no two-phase commit")
        pairs = {}
        for name in ids:
            pause()
            one = self.ids.get(name)
            if one is None:
                one = self.ids[name] = Id(self._new_pair())
            else:
                if one.state == "Ongoing":
                    self._end(one, "CompleteAbort")
                    one.pair = self._bumped(one.pair)
                one.pair = self._bumped(one.pair)
            one.state, one.partitions, one.two_phase = "Empty", set(), two_phase
            one.was_seen_open = False
            pairs[name] = one.pair
        return pairs

    def describe(self, ids: Sequence[str]) -> dict[str, TransactionDescription | None]:
        found: dict[str, TransactionDescription | None] = {}
        for name in ids:
            pause()
            one = self.ids.get(name)
            if one is not None:
                one.was_seen_open = one.state == "Ongoing"
            found[name] = one and TransactionDescription(
                state=one.state, pair=one.pair, start_ms=0, timeout_ms=1, partitions=frozenset(one.partitions)
            )
        return found

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> dict[str, KafkaError | None]:
        results: dict[str, KafkaError | None] = {}
        for name, pair in pairs.items():
            pause()
            one = self.ids.get(name)
            wanted = "CompleteCommit" if commit else "CompleteAbort"
            if one is None or one.pair != pair:
                results[name] = KafkaError(ErrorCode.PRODUCER_FENCED, name)
            elif one.state == "Ongoing":
                self._end(one, wanted)
                self._answer()
                results[name] = None
            else:
                error = KafkaError(ErrorCode.INVALID_TXN_STATE, f"{name} is {one.state}")
                results[name] = None if one.state == wanted else error
        return results

    def list_open(self, prefix: str) -> set[str]:
        pause()
        return {name for name, one in self.ids.items() if one.state == "Ongoing" and name.startswith(prefix)}

    def add_partitions(
        self, transactional_id: str, pair: ProducerPair, partitions: Sequence[TopicPartition]
    ) -> None:
        pause()
        self._open(transactional_id, pair).partitions |= {*partitions}

    def write_record(
        self, transactional_id: str, pair: ProducerPair, group_id: str, record: CommittedOffset
    ) -> None:
        pause()
        self._open(transactional_id, pair)
        pause()
        one = self._open(transactional_id, pair)
        one.pending = (group_id, record)
        self._answer()

    def read_record(self, group_id: str) -> CommittedOffset | None:
        pause()
        while any(one.pending and one.pending[0] == group_id for one in self.ids.values()):
            pause()
        return self.records.get(group_id)

    def refresh_coordinator(self, group_id: str) -> None:
        pause()

    def note_completed(self, group_id: str, note: CommittedOffset) -> None:
        pause()
        self.completed[group_id] = note

    def read_completed(self, group_id: str) -> CommittedOffset | None:
        pause()
        return self.completed.get(group_id)

    def keep_record(self, group_id: str) -> None:
        pause()

    def max_timeout_ms(self) -> int:
        return 900_000

    # ---- tasks, time and readers ----------------------------------------------------------------

    def produce(self, name: str, pair: ProducerPair, partition: TopicPartition, row: Row) -> None:
        pause()
        one = self.ids[name]
        if one.pair != pair or one.state != "Ongoing" or partition not in one.partitions:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, name)
        self.logs[partition].append(Written(row, one.transaction))

    def expire_one(self, rng: random.Random) -> None:
        """Time out a random open transaction without two-phase commit."""
        candidates = [name for name, one in self.ids.items() if one.state == "Ongoing" and not one.two_phase]
        if candidates:
            name = rng.choice(sorted(candidates))
            one = self.ids[name]
            # A loss between the check of a transaction and its end cannot be prevented; the check must find
            # an earlier one.
            self.lost_after_check |= one.was_seen_open
            self._end(one, "CompleteAbort")
            one.pair = self._bumped(one.pair)

    def committed_rows(self) -> dict[TopicPartition, list[Row]]:
        return {
            partition: [one.row for one in log if one.transaction.outcome == "CompleteCommit"]
            for partition, log in self.logs.items()
        }

    # ---- coordinators ---------------------------------------------------------------------------

    def _answer(self) -> None:
        """Lose some answers: the request was carried out, and the caller does not learn of it."""
        if self.loses_answers and self.rng.random() < 0.02:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "an answer is lost")

    def _open(self, name: str, pair: ProducerPair) -> Id:
        one = self.ids[name]
        if one.pair != pair:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, name)
        if one.state != "Ongoing":
            one.state, one.transaction, one.partitions, one.pending = "Ongoing", Transaction(), set(), None
        return one

    def _end(self, one: Id, outcome: str) -> None:
        if one.pending is not None and outcome == "CompleteCommit":
            self.records[one.pending[0]] = one.pending[1]
        one.state = one.transaction.outcome = outcome
        one.pending = None

    def _bumped(self, pair: ProducerPair) -> ProducerPair:
        if pair.epoch >= LAST_EPOCH:
            return self._new_pair()
        return ProducerPair(pair.producer_id, pair.epoch + 1)

    def _new_pair(self) -> ProducerPair:
        self._next_id += 1
        return ProducerPair(self._next_id, 0)


@dataclass(slots=True)
class Checkpoint:
    """The state of a query that survives any crash: the last batch that was begun, and the last finished."""

    planned: int = -1
    done: int = -1

    @property
    def next(self) -> int:
        return self.planned if self.planned > self.done else self.done + 1


@dataclass(slots=True)
class Planner:
    """A process that plans batches, one at a time; it may serve several incarnations of a driver."""

    incarnations: dict[SinkOptions, Any] = field(default_factory=dict)
    is_busy: bool = False


class Model:
    """A query on a cluster, whose drivers and tasks die, hang and return, as the seed gives."""

    def __init__(self, seed: int, *, two_phase: bool, expires: bool) -> None:
        self.rng = random.Random(seed)
        self.turns = Turns(self.rng)
        self.cluster = ModelCluster(self.rng, grants_two_phase=two_phase)
        self.expires = expires
        self.checkpoint = Checkpoint()
        self.planner = Planner()
        self.options = SinkOptions.from_options(
            {
                "kafka.bootstrap.servers": "model:1",
                "delivery.guarantee": "exactly_once",
                "transactional.id": "T",
                "topic": TOPIC,
            }
        )
        self.names = Names("T")
        self.driver_count = 0
        self.losses: list[TransactionsLost] = []

    # ---- run ------------------------------------------------------------------------------------

    def run(self, turns: int = 1_500) -> None:
        """Run with faults for some turns, then without them until the last batch is finished."""
        driver = self._start_driver()
        self.cluster.loses_answers = True
        for _ in range(turns):
            if self.checkpoint.done >= BATCHES - 1:
                break
            self.turns.next()
            if driver.is_done or self.rng.random() < 0.01:
                # Not always killed: a driver that counts as dead may continue.
                if self.rng.random() < 0.5:
                    self.turns.kill(driver)
                driver = self._start_driver()
            elif self.rng.random() < 0.01 and self.turns.actors:
                self.turns.kill(self.rng.choice(self.turns.actors))
            elif self.expires and self.rng.random() < 0.01:
                self.cluster.expire_one(self.rng)
        self._finish_without_faults(driver)

    def _finish_without_faults(self, driver: Actor) -> None:
        self.cluster.loses_answers = False
        for _ in range(200):
            while not driver.is_done:
                self.turns.next()
            if self.checkpoint.done >= BATCHES - 1 or self.losses:
                break
            driver = self._start_driver()
        else:
            raise AssertionError("the query never ends")
        while self.turns.next():
            pass
        if not self.losses:
            # Transactions that dead drivers left open are swept when a new process begins.
            self.planner = Planner()
            last = self.turns.begin("last", self._begin_batch)
            while self.turns.next():
                pass
            if isinstance(last.failure, TransactionsLost):
                self.losses.append(last.failure)
            assert last.failure is None or self.losses, last.failure

    def check(self) -> None:
        """Check that each row is there once, in the order of its key, and that no transaction is open.

        A loss may be reported only if a transaction expired after the sink's check.
        """
        assert not self.losses or self.cluster.lost_after_check, self.losses[0]
        found: dict[int, list[Row]] = {key: [] for key in range(KEYS)}
        for rows in self.cluster.committed_rows().values():
            for row in rows:
                found[row.key].append(row)
        for key, rows in found.items():
            expected = [row for batch_id in range(BATCHES) for row in _rows(batch_id) if row.key == key]
            assert rows == expected if not self.losses else len(rows) == len(set(rows)), (key, rows)
        if not self.losses:
            still_open = {name for name, one in self.cluster.ids.items() if one.state == "Ongoing"}
            assert not still_open, still_open

    # ---- drivers --------------------------------------------------------------------------------

    def _start_driver(self) -> Actor:
        self.driver_count += 1
        if self.planner.is_busy or self.rng.random() < 0.5:
            self.planner = Planner()
        run_id, planner = UUID(int=1000 + self.driver_count), self.planner
        return self.turns.begin(f"driver {self.driver_count}", lambda: self._drive(run_id, planner))

    def _drive(self, run_id: UUID, planner: Planner) -> None:
        while self.checkpoint.next < BATCHES:
            batch_id = self.checkpoint.next
            self.checkpoint.planned = max(self.checkpoint.planned, batch_id)
            pause()
            run = BatchRun(query_id=QUERY, run_id=run_id, batch_id=batch_id)
            try:
                begun = self._begin_batch(planner)
            except TransactionsLost as lost:
                self.losses.append(lost)
                return
            reports = self._run_tasks(run, begun)
            commit = Driver(self.options, self.cluster, {})
            try:
                commit.commit(reports, batch_id)
            except TransactionsLost as lost:
                self.losses.append(lost)
                return
            except (KafkaError, BatchExpired):
                commit.abort(reports, batch_id)
                return
            pause()
            self.checkpoint.done = max(self.checkpoint.done, batch_id)

    def _begin_batch(self, planner: Planner | None = None) -> Begun:
        planner = planner or self.planner
        planner.is_busy = True  # for ever, if it is killed in the middle
        begun = Driver(self.options, self.cluster, planner.incarnations).begin()
        planner.is_busy = False
        return begun

    # ---- tasks ----------------------------------------------------------------------------------

    def _run_tasks(self, run: BatchRun, begun: Begun) -> list[TaskReport]:
        """Return a report of each task, from the attempt that is ready first; the others continue."""
        parts: list[list[Row]] = [[] for _ in range(self.rng.randint(1, 4))]
        place = {key: self.rng.randrange(len(parts)) for key in range(KEYS)}
        for row in _rows(run.batch_id):
            parts[place[row.key]].append(row)
        reports = []
        for part in parts:
            attempts = [self._begin_task(run, begun, part)]
            while not (
                ready := [one for one in attempts if one.is_done and isinstance(one.result, TaskReport)]
            ):
                pause()
                if len(attempts) < 3 and (attempts[-1].is_done or self.rng.random() < 0.02):
                    attempts.append(self._begin_task(run, begun, part))
                if all(one.is_done for one in attempts) and len(attempts) == 3 and not ready:
                    ready = [one for one in attempts if isinstance(one.result, TaskReport)]
                    if not ready:
                        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a task failed")
            reports.append(ready[0].result)
        return reports

    def _begin_task(self, run: BatchRun, begun: Begun, rows: list[Row]) -> Actor:
        return self.turns.begin(f"task of {run.batch_id}", lambda: self._task(run, begun, rows))

    def _task(self, run: BatchRun, begun: Begun, rows: list[Row]) -> TaskReport:
        transaction = TaskTransaction(self.names, begun, run, self.cluster)
        if decide_batch(run, begun.record, takes_over=False) is WriteDecision.DRAIN or not rows:
            return transaction.report()
        participant = transaction.take_slot()
        for row in rows:
            partition = TopicPartition(TOPIC, row.key % PARTITIONS)
            transaction.join([partition])
            self.cluster.produce(self.names.id_of_slot(participant.slot), participant.pair, partition, row)
        return transaction.report()


def _rows(batch_id: int) -> list[Row]:
    return [Row(key, batch_id, number) for number in range(ROWS_PER_KEY) for key in range(KEYS)]
