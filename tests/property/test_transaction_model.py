"""Two producers of one transactional id, each of the old or the new protocol, against a simple model.

They fence each other, lose responses and retry, and in some walks prepare transactions for the other to end.
Meanwhile abandoned requests arrive late, markers are written at any time and reported twice, producer ids are
allocated slowly, and coordinators fail. In the model a transaction has its number in the name of its
partition, and the log has its outcome. Then a transaction is

    committed only if its own producer wanted it; aborted only if a producer was allowed to abort it
    decided once, and never open again; never merged with another; complete when all partitions have a marker
    in the state that a response gave its producer, who never gets INVALID_TXN_STATE
    ended by markers that agree with the log; in the end no transaction is open

Late requests of the old protocol arrive over the connection that their producer has abandoned, and never at
another coordinator (groupcoord/DESIGN.md, D38). Its AddPartitions are never late, since they cannot be
distinguished from new ones. Nor are markers reported twice if a producer uses the old protocol: the sender
reports each once, and two jobs of the old protocol look alike.

The walks are random from a seed, not from hypothesis, because failures here take dozens of steps in a row.
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
SHARED = TopicPartition("shared", 0)  # a partition of every transaction; their own numbers begin at 1
BUSY = (E.CONCURRENT_TRANSACTIONS, E.NOT_COORDINATOR)
FENCED = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
WALKS, STEPS = 30, 300


@dataclass
class Producer:
    """The state of a client."""

    version: int
    pair: ProducerPair | None = None
    number: int | None = None  # of its transaction
    is_added: bool = False
    wants: bool | None = None  # True to commit, False to abort, None while undecided
    request: tuple[str, int] | None = None  # its pending request and the token of that
    connection: int = 0

    def reset(self) -> None:
        self.pair = self.number = self.wants = None
        self.is_added = False


class Model:
    def __init__(self, random: Random) -> None:
        self.random = random
        # Two-phase commit: the next process ends a prepared transaction, as an external system has decided.
        self.is_two_phase = random.random() < 0.4
        config = TransactionConfig(
            ottla_transaction_hold_ms=random.choice((0, 100)),
            transaction_two_phase_commit_enable=self.is_two_phase,
        )
        self.world = TransactionWorld(config, level=random.choice((1, 2)))
        if random.random() < 0.5:  # near the largest epoch
            self.world.put(at(S.EMPTY, random.randint(32_750, 32_766)))
        self.producers = [Producer(random.choice((0, CLIENT_V2))) for _ in range(2)]
        self.numbers = 0
        self.connections = 0
        self.owners: dict[int, Producer] = {}
        self.wanted: dict[int, set[bool]] = {}
        self.may_abort: set[int] = set()
        # By number of the transaction, the partitions whose marker was reported; a crash loses none.
        self.written: dict[int, set[TopicPartition]] = {}
        self.late: list[AddPartitions | EndTransaction] = []
        self.late_inits: list[tuple[Producer, InitProducer]] = []
        self.reported: list[MarkersWritten] = []
        self.inits: dict[int, Producer] = {}
        self.started_ms: dict[int, int] = {}
        self.actions: dict[Callable[[Producer], None], int] = {
            self.work: 40,
            self.give_up: 4,
            self.initialize_again: 5,
            self.deliver_late_request: 8,
            self.deliver_late_init: 1,
            self.write_markers: 16,
            self.repeat_marker_reports: 4,
            self.delay_ids: 2,
            self.allocate_ids: 4,
            self.delay_commits: 2,
            self.commit_some: 4,
            self.commit_all: 6,
            self.crash: 1,
            self.time_passes: 3,
        }

    def step(self) -> None:
        (action,) = self.random.choices(list(self.actions), list(self.actions.values()))
        if self.random.random() < 0.03:  # so one producer works for a while before the other
            self.producers.reverse()
        action(self.producers[0])
        self.check()

    # ---- producers -----------------------------------------------------------------------------------------

    def work(self, producer: Producer) -> None:
        """Do the next step of a producer. Late requests arrive some time after they were abandoned."""
        self.collect(producer)
        if producer.request is not None:
            return
        if producer.pair is None:
            self.init(producer, None)
        elif not producer.is_added:
            self.add(producer, producer.pair)
        else:
            self.end(producer, producer.pair)

    def initialize_again(self, producer: Producer) -> None:
        """Initialize again, after an abortable error, or as a new process without state."""
        self.give_up(producer)
        self.init(producer, producer.pair if self.random.random() < 0.5 else None)

    def init(self, producer: Producer, expected: ProducerPair | None) -> None:
        keeps = self.is_two_phase and expected is None and self.random.random() < 0.8
        producer.reset()  # its pair is about to be replaced
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
        if not is_late or self.random.random() < 0.5:  # or both: the response is lost, and it is sent again
            self.takes_over(producer, command)
            self.send(producer, "init", command)

    def takes_over(self, producer: Producer, command: InitProducer) -> None:
        """Allow the abort of open transactions; a request with an expected pair aborts only its own."""
        self.inits[command.token] = producer
        for number, owner in self.owners.items():
            if not command.keep_prepared and (command.expected is None or owner is producer):
                self.may_abort.add(number)

    def adopt(self, producer: Producer, ongoing: ProducerPair) -> None:
        """Take over the transaction that a new process finds open, and decide its outcome."""
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
        self, producer: Producer, kind: str, command: InitProducer | AddPartitions | EndTransaction
    ) -> None:
        producer.request = (kind, command.token)
        self.world.handle(command)
        if self.random.random() < 0.8:
            self.collect(producer)

    def give_up(self, producer: Producer) -> None:
        """Lose the response with its connection; the producer will retry over another one."""
        producer.request = None
        producer.connection = 0

    def collect(self, producer: Producer) -> None:
        """Read the response, if there is one."""
        if producer.request is None:
            return
        kind, token = producer.request
        seen = self.world.seen(token)
        if seen is None:
            return
        producer.request = None
        if isinstance(seen, ProducerPair):
            if kind == "end":
                assert producer.number is not None
                outcome = self.outcomes(self.world.committed).get(producer.number)
                assert outcome is producer.wants, "the response differs from the outcome"
            producer.reset()
            producer.pair = seen
            answer = self.world.answers[token]
            if isinstance(answer, InitProducerResult) and answer.ongoing is not None:
                self.adopt(producer, answer.ongoing)
        elif seen == "closed":
            producer.connection = 0
        elif seen is E.NONE:
            producer.is_added = True
        elif seen in FENCED:
            producer.reset()
        else:
            assert seen in BUSY, (kind, seen)

    # ---- the world -----------------------------------------------------------------------------------------

    def deliver_late_request(self, _: Producer) -> None:
        """Deliver a late request, whose response is ignored; in the new protocol perhaps more than once."""
        if self.late:
            copy = self.random.choice(self.late)
            if copy.client_version != CLIENT_V2:
                self.late.remove(copy)
            self.world.handle(replace(copy, token=self.world.token()))

    def deliver_late_init(self, _: Producer) -> None:
        """Deliver a late InitProducerId: its producer ignores it; to the others it is a new process."""
        if self.late_inits:
            producer, command = self.late_inits.pop(self.random.randrange(len(self.late_inits)))
            self.takes_over(producer, command)
            self.world.handle(command)

    def write_markers(self, _: Producer) -> None:
        """Write the markers of a transaction to one of its partitions, to some, or to all."""
        if self.world.jobs:
            job = self.random.choice(self.world.jobs)
            first, second, shared = job.partitions
            partitions = self.random.choice(
                ((first, second, shared), (first,), (second,), (shared,), (first, second), (second, shared))
            )
            self.note_written(job, partitions)
            if all(each.version == CLIENT_V2 for each in self.producers):
                report = MarkersWritten(
                    transactional_id=job.transactional_id,
                    producer_id=job.producer_id,
                    marker_epoch=job.marker_epoch,
                    partitions=frozenset(partitions),
                )
                self.reported.append(report)
            self.world.write_markers(job, partitions)

    def note_written(self, job: MarkerJob, partitions: Iterable[TopicPartition]) -> None:
        (number,) = numbers_of(job.partitions)
        self.written.setdefault(number, set()).update(partitions)

    def repeat_marker_reports(self, _: Producer) -> None:
        """Report markers again, perhaps to another coordinator, or while the next transaction ends."""
        if self.reported:
            self.world.handle(self.random.choice(self.reported[-20:]))

    def delay_ids(self, _: Producer) -> None:
        self.world.has_ids = False

    def allocate_ids(self, _: Producer) -> None:
        """Allocate producer ids, so that the requests that waited for one are decided."""
        for wanted in self.world.wanted_ids:
            if isinstance(wanted.command, InitProducer):
                self.takes_over(self.inits[wanted.command.token], wanted.command)
        self.world.has_ids = True
        self.world.give_ids()

    def delay_commits(self, _: Producer) -> None:
        self.world.commits = False

    def commit_some(self, _: Producer) -> None:
        self.world.commit(self.random.randint(1, 2))

    def commit_all(self, _: Producer) -> None:
        self.world.commits = True
        self.world.commit()

    def crash(self, _: Producer) -> None:
        self.world.crash()
        # Pending requests get no response; old connections lead to a node that is no longer the coordinator.
        for producer in self.producers:
            self.give_up(producer)
        self.late = [each for each in self.late if each.client_version == CLIENT_V2]

    def time_passes(self, _: Producer) -> None:
        self.world.advance(self.random.choice((50, 200, 12_000, 45_000)))
        for number, started_ms in self.started_ms.items():
            if not self.is_two_phase and self.world.now_ms - started_ms > TIMEOUT_MS:
                self.may_abort.add(number)

    def settle(self) -> None:
        self.commit_all(self.producers[0])
        self.allocate_ids(self.producers[0])
        takes_over, self.is_two_phase = self.is_two_phase, False
        for _ in range(3):
            if takes_over:  # nothing else ends prepared and abandoned transactions
                self.late_inits.clear()
                self.init(self.producers[0], None)
                while self.late_inits:
                    self.deliver_late_init(self.producers[0])
            for job in self.world.jobs:
                self.note_written(job, job.partitions)
            self.world.write_markers()
            self.world.advance(TIMEOUT_MS + 20_000)
        shard = self.world.coordinator.shard
        assert not shard.markers_left and not shard.ongoing and not shard.waiting

    # ---- invariants ----------------------------------------------------------------------------------------

    def outcomes(self, count: int | None = None) -> dict[int, bool]:
        """Return the outcome of each transaction by number, True if committed, from the first records or all.

        Assert that the log is consistent.
        """
        outcomes: dict[int, bool] = {}
        decided: Transaction | None = None
        for _, value in self.world.log[:count]:
            t = read(value)
            numbers = numbers_of(t.partitions)
            assert len(numbers) <= 1, "two transactions in one"
            if t.state in PREPARED:
                assert not numbers & outcomes.keys(), "decided twice"
                outcomes |= dict.fromkeys(numbers, t.state is TransactionState.PREPARE_COMMIT)
                decided = t
            elif t.state is TransactionState.ONGOING:
                assert not numbers & outcomes.keys(), "open again"
            else:
                assert t.state in AT_REST and not numbers
                for number in numbers_of(decided.partitions) if decided is not None else ():
                    assert decided.partitions <= self.written[number], "complete without a marker"
                decided = None
        return outcomes

    def check(self) -> None:
        for number, committed in self.outcomes().items():
            if committed:
                assert True in self.wanted[number], f"no producer wanted to commit {number}"
            else:
                assert False in self.wanted[number] or number in self.may_abort, (
                    f"no producer wanted or was allowed to abort {number}"
                )
        outcomes = self.outcomes(self.world.committed)
        for job in self.world.jobs:
            assert {outcomes[number] for number in numbers_of(job.partitions)} == {job.committed}


def numbers_of(partitions: Iterable[TopicPartition]) -> set[int]:
    return {one.partition for one in partitions if one != SHARED}


@cache
def read(value: bytes | None) -> Transaction:
    assert value is not None
    t = decode_value(ID, value)
    assert t is not None
    return t


@pytest.mark.parametrize("seed", range(WALKS))
def test_every_transaction_has_the_outcome_of_the_response_to_its_producer(seed: int) -> None:
    model = Model(Random(seed))

    for _ in range(STEPS):
        model.step()
    model.settle()

    assert model.numbers > 5 and model.outcomes()
