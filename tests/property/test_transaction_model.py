"""Two producers of one transactional id, each of the old or the new protocol, fence each other, lose answers
and ask again, prepare transactions for the other to end (in some walks), while requests that were given up
arrive late, markers are written whenever and told of twice, producer ids are long in coming, and coordinators
fall. All against a dumb model: a transaction has its number in the name of its partition, and the log says
what became of it.

    committed only if its own producer wanted that; aborted only if somebody had a right to
    decided once, and never open again; no two transactions in one; complete when all partitions have a marker
    a producer that was told so finds it so in what is committed, and is never told INVALID_TXN_STATE
    markers say what the log says; in the end nothing is left open

What is late of the old protocol comes over the connection that its producer has given up, and never to
another coordinator (groupcoord/DESIGN.md, D38); its AddPartitions are never late, since nothing tells them
from new ones. Neither are markers told of twice where one producer speaks it: the sender tells of each once,
and a job of the old protocol looks like the one before.

Walks by chance from a seed, not hypothesis: whatever goes wrong here takes dozens of steps in a row.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest

from ottla.groupcoord.transactions.transaction import CLIENT_V2, ProducerPair, Transaction
from ottla.groupcoord.transactions.transaction_commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
)
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_records import decode_value
from ottla.groupcoord.transactions.transaction_results import InitProducerResult
from ottla.groupcoord.transactions.transaction_state import AT_REST, PREPARED, TransactionState
from ottla.logstore.words.errors import ErrorCode as E
from ottla.logstore.words.topic_partition import TopicPartition
from tests.unit.groupcoord.transactions.states import S, at
from tests.unit.groupcoord.transactions.transaction_world import ID, TransactionWorld

TIMEOUT_MS = 30_000
SHARED = TopicPartition("shared", 0)  # is in every transaction; their numbers begin at 1
BUSY = (E.CONCURRENT_TRANSACTIONS, E.NOT_COORDINATOR)
FENCED = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
WALKS, STEPS = 30, 300


@dataclass
class Producer:
    """What a client knows."""

    version: int
    pair: ProducerPair | None = None
    number: int | None = None  # of its transaction
    is_added: bool = False
    wants: bool | None = None  # whether to commit, once that is decided
    asked: tuple[str, int] | None = None  # what it waits for, by which token
    connection: int = 0

    def begin_anew(self) -> None:
        self.pair = self.number = self.wants = None
        self.is_added = False


class Model:
    def __init__(self, random: Random) -> None:
        self.random = random
        # Two-phase commit: the next process ends what it finds prepared, as somebody outside has decided.
        self.is_two_phase = random.random() < 0.4
        config = TransactionConfig(
            ottla_transaction_hold_ms=random.choice((0, 100)),
            transaction_two_phase_commit_enable=self.is_two_phase,
        )
        self.world = TransactionWorld(config, level=random.choice((1, 2)))
        if random.random() < 0.5:  # soon at the end of its epochs
            self.world.put(at(S.EMPTY, random.randint(32_750, 32_766)))
        self.producers = [Producer(random.choice((0, CLIENT_V2))) for _ in range(2)]
        self.numbers = 0
        self.connections = 0
        self.owners: dict[int, Producer] = {}
        self.wanted: dict[int, set[bool]] = {}
        self.may_abort: set[int] = set()
        # By number of the transaction: of which some node has said so; a crash forgets none.
        self.written: dict[int, set[TopicPartition]] = {}
        self.late: list[AddPartitions | EndTransaction] = []
        self.late_inits: list[tuple[Producer, InitProducer]] = []
        self.told: list[MarkersWritten] = []
        self.inits: dict[int, Producer] = {}
        self.started_ms: dict[int, int] = {}
        self.actions: dict[Callable[[Producer], None], int] = {
            self.work: 40,
            self.give_up: 4,
            self.begin_again: 5,
            self.something_late: 8,
            self.a_late_init: 1,
            self.write_markers: 16,
            self.markers_are_told_of_again: 4,
            self.ids_are_slow: 2,
            self.ids_come: 4,
            self.replicas_are_slow: 2,
            self.commit_some: 4,
            self.commit_all: 6,
            self.crash: 1,
            self.time_passes: 3,
        }

    def step(self) -> None:
        (action,) = self.random.choices(list(self.actions), list(self.actions.values()))
        if self.random.random() < 0.03:  # one of them is at work most of the time
            self.producers.reverse()
        action(self.producers[0])
        self.check()

    # ---- producers -----------------------------------------------------------------------------------------

    def work(self, producer: Producer) -> None:
        """The next thing that this producer does. What is late arrives some time after it was given up."""
        self.collect(producer)
        if producer.asked is not None:
            return
        if producer.pair is None:
            self.init(producer, None)
        elif not producer.is_added:
            self.add(producer, producer.pair)
        else:
            self.end(producer, producer.pair)

    def begin_again(self, producer: Producer) -> None:
        """After an error that it can go on from, or as another process that knows of nothing."""
        self.give_up(producer)
        self.init(producer, producer.pair if self.random.random() < 0.5 else None)

    def init(self, producer: Producer, expected: ProducerPair | None) -> None:
        keeps = self.is_two_phase and expected is None and self.random.random() < 0.8
        producer.begin_anew()  # nobody goes on with a pair that is about to be replaced
        command = InitProducer(
            token=self.world.token(),
            transactional_id=ID,
            timeout_ms=TIMEOUT_MS,
            expected=expected,
            enable_2pc=self.is_two_phase,
            keep_prepared=keeps,
        )
        is_late = self.random.random() < 0.15
        if is_late:
            self.late_inits.append((producer, replace(command, token=self.world.token())))
        if not is_late or self.random.random() < 0.5:  # or both: its answer is lost, and it is sent again
            self.takes_over(producer, command)
            self.send(producer, "init", command)

    def takes_over(self, producer: Producer, command: InitProducer) -> None:
        """What is open now may be aborted; by who expects a pair, only what is of that producer."""
        self.inits[command.token] = producer
        for number, owner in self.owners.items():
            if not command.keep_prepared and (command.expected is None or owner is producer):
                self.may_abort.add(number)

    def adopt(self, producer: Producer, ongoing: ProducerPair) -> None:
        """The transaction that a process finds open, and what is to become of it."""
        producer.number = next(
            number
            for _, value in reversed(self.world.log[: self.world.committed])
            for t in (read(value),)
            if t.state is TransactionState.ONGOING and t.pair == ongoing
            for number in numbers_of(t.partitions)
        )
        producer.is_added = True
        producer.wants = next(iter(self.wanted[producer.number]), None)
        self.owners[producer.number] = producer

    def add(self, producer: Producer, pair: ProducerPair) -> None:
        if producer.number is None:
            self.numbers += 1
            producer.number = self.numbers
            self.owners[self.numbers] = producer
            self.wanted[self.numbers] = set()
            self.started_ms[self.numbers] = self.world.now_ms
        command = AddPartitions(
            token=self.world.token(),
            transactional_id=ID,
            producer=pair,
            partitions=frozenset({*(TopicPartition(topic, producer.number) for topic in ("a", "b")), SHARED}),
            client_version=producer.version,
            may_wait=producer.version != CLIENT_V2,
        )
        if producer.version == CLIENT_V2 and self.random.random() < 0.2:
            self.late.append(command)
        else:
            self.send(producer, "add", command)

    def end(self, producer: Producer, pair: ProducerPair) -> None:
        assert producer.number is not None
        if producer.wants is None:
            producer.wants = self.random.random() < 0.6
        self.wanted[producer.number].add(producer.wants)
        if not producer.connection:
            self.connections += 1
            producer.connection = self.connections
        command = EndTransaction(
            token=self.world.token(),
            transactional_id=ID,
            producer=pair,
            committed=producer.wants,
            client_version=producer.version,
            connection_number=producer.connection,
        )
        if self.random.random() < 0.3:
            self.late.append(command)
            producer.connection = 0
        else:
            self.send(producer, "end", command)

    def send(
        self, producer: Producer, what: str, command: InitProducer | AddPartitions | EndTransaction
    ) -> None:
        producer.asked = (what, command.token)
        self.world.handle(command)
        if self.random.random() < 0.8:
            self.collect(producer)

    def give_up(self, producer: Producer) -> None:
        """The answer is lost with its connection; the producer will ask again over another one."""
        producer.asked = None
        producer.connection = 0

    def collect(self, producer: Producer) -> None:
        """Read the answer, if there is one."""
        if producer.asked is None:
            return
        what, token = producer.asked
        seen = self.world.seen(token)
        if seen is None:
            return
        producer.asked = None
        if isinstance(seen, ProducerPair):
            if what == "end":
                assert producer.number is not None
                fate = self.fates(self.world.committed).get(producer.number)
                assert fate is producer.wants, "told otherwise than it is"
            producer.begin_anew()
            producer.pair = seen
            answer = self.world.answers[token]
            if isinstance(answer, InitProducerResult) and answer.ongoing is not None:
                self.adopt(producer, answer.ongoing)
        elif seen == "closed":
            producer.connection = 0
        elif seen is E.NONE:
            producer.is_added = True
        elif seen in FENCED:
            producer.begin_anew()
        else:
            assert seen in BUSY, (what, seen)

    # ---- the world -----------------------------------------------------------------------------------------

    def something_late(self, _: Producer) -> None:
        """It arrives, and nobody waits for its answer; of the new protocol perhaps more than once."""
        if self.late:
            copy = self.random.choice(self.late)
            if copy.client_version != CLIENT_V2:
                self.late.remove(copy)
            self.world.handle(replace(copy, token=self.world.token()))

    def a_late_init(self, _: Producer) -> None:
        """Whose it was does not know of it; to all others it is a process that has just begun."""
        if self.late_inits:
            producer, command = self.late_inits.pop(self.random.randrange(len(self.late_inits)))
            self.takes_over(producer, command)
            self.world.handle(command)

    def write_markers(self, _: Producer) -> None:
        """Of one transaction, to one of its partitions, to some, or to all."""
        if self.world.jobs:
            job = self.random.choice(self.world.jobs)
            first, second, shared = job.partitions
            partitions = self.random.choice(
                ((first, second, shared), (first,), (second,), (shared,), (first, second), (second, shared))
            )
            self.are_written(job, partitions)
            if all(each.version == CLIENT_V2 for each in self.producers):
                told = MarkersWritten(
                    transactional_id=job.transactional_id,
                    producer_id=job.producer_id,
                    marker_epoch=job.marker_epoch,
                    partitions=frozenset(partitions),
                )
                self.told.append(told)
            self.world.write_markers(job, partitions)

    def are_written(self, job: MarkerJob, partitions: Iterable[TopicPartition]) -> None:
        (number,) = numbers_of(job.partitions)
        self.written.setdefault(number, set()).update(partitions)

    def markers_are_told_of_again(self, _: Producer) -> None:
        """Perhaps to another coordinator, or when the next transaction is about to end."""
        if self.told:
            self.world.handle(self.random.choice(self.told[-20:]))

    def ids_are_slow(self, _: Producer) -> None:
        self.world.has_ids = False

    def ids_come(self, _: Producer) -> None:
        """What waited for one is decided now."""
        for wanted in self.world.wanted_ids:
            if isinstance(wanted.command, InitProducer):
                self.takes_over(self.inits[wanted.command.token], wanted.command)
        self.world.has_ids = True
        self.world.give_ids()

    def replicas_are_slow(self, _: Producer) -> None:
        self.world.commits = False

    def commit_some(self, _: Producer) -> None:
        self.world.commit(self.random.randint(1, 2))

    def commit_all(self, _: Producer) -> None:
        self.world.commits = True
        self.world.commit()

    def crash(self, _: Producer) -> None:
        self.world.crash()
        # Who waits hears nothing; old connections lead to a node that is not the coordinator any more.
        for producer in self.producers:
            self.give_up(producer)
        self.late = [each for each in self.late if each.client_version == CLIENT_V2]

    def time_passes(self, _: Producer) -> None:
        self.world.advance(self.random.choice((50, 200, 12_000, 45_000)))
        for number, started_ms in self.started_ms.items():
            if not self.is_two_phase and self.world.now_ms - started_ms > TIMEOUT_MS:
                self.may_abort.add(number)

    def come_to_rest(self) -> None:
        self.commit_all(self.producers[0])
        self.ids_come(self.producers[0])
        takes_over, self.is_two_phase = self.is_two_phase, False
        for _ in range(3):
            if takes_over:  # nothing else ends what was prepared and what nobody ends
                self.late_inits.clear()
                self.init(self.producers[0], None)
                while self.late_inits:
                    self.a_late_init(self.producers[0])
            for job in self.world.jobs:
                self.are_written(job, job.partitions)
            self.world.write_markers()
            self.world.advance(TIMEOUT_MS + 20_000)
        shard = self.world.coordinator.shard
        assert not shard.markers_left and not shard.ongoing and not shard.waiting

    # ---- what must hold ------------------------------------------------------------------------------------

    def fates(self, count: int | None = None) -> dict[int, bool]:
        """By number, whether it is committed, as so many records or all say; and what no log may say."""
        fates: dict[int, bool] = {}
        decided: Transaction | None = None
        for _, value in self.world.log[:count]:
            t = read(value)
            numbers = numbers_of(t.partitions)
            assert len(numbers) <= 1, "two transactions in one"
            if t.state in PREPARED:
                assert not numbers & fates.keys(), "decided twice"
                fates |= dict.fromkeys(numbers, t.state is TransactionState.PREPARE_COMMIT)
                decided = t
            elif t.state is TransactionState.ONGOING:
                assert not numbers & fates.keys(), "open again"
            else:
                assert t.state in AT_REST and not numbers
                for number in numbers_of(decided.partitions) if decided is not None else ():
                    assert decided.partitions <= self.written[number], "complete without a marker"
                decided = None
        return fates

    def check(self) -> None:
        for number, committed in self.fates().items():
            if committed:
                assert True in self.wanted[number], f"nobody wanted to commit {number}"
            else:
                assert False in self.wanted[number] or number in self.may_abort, f"who aborted {number}?"
        fates = self.fates(self.world.committed)
        for job in self.world.jobs:
            assert {fates[number] for number in numbers_of(job.partitions)} == {job.committed}


def numbers_of(partitions: Iterable[TopicPartition]) -> set[int]:
    return {one.partition for one in partitions if one != SHARED}


@cache
def read(value: bytes | None) -> Transaction:
    assert value is not None
    t = decode_value(ID, value)
    assert t is not None
    return t


@pytest.mark.parametrize("seed", range(WALKS))
def test_every_transaction_has_the_fate_that_its_producer_was_told(seed: int) -> None:
    model = Model(Random(seed))

    for _ in range(STEPS):
        model.step()
    model.come_to_rest()

    assert model.numbers > 5 and model.fates()
