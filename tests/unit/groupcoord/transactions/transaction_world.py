"""A shard of the transaction coordinator with a virtual clock, a log of bytes, timers and markers.

Timers fire as a test advances the clock, and markers are written when a test says so. After every command it
checks the invariants: no token is answered twice, the log gives the state of the live shard, markers carry
the decision. Appends are committed at once unless `commits` is off; then answers and markers wait for
`commit()`, and `crash()` loses the records that are not committed.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ottla.groupcoord.transactions.transaction import (
    CLIENT_V1,
    CLIENT_V2,
    NO_EPOCH,
    ProducerPair,
    Transaction,
)
from ottla.groupcoord.transactions.transaction_commands import (
    AddPartitions,
    Command,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    VerifyPartitions,
)
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_coordinator import TransactionCoordinator
from ottla.groupcoord.transactions.transaction_effects import (
    Append,
    CancelTimer,
    CloseWithoutResponse,
    Effect,
    MarkerJob,
    NeedProducerId,
    Refuse,
    Reply,
    SendMarkers,
    StartTimer,
    TimerKey,
)
from ottla.groupcoord.transactions.transaction_records import (
    TransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.groupcoord.transactions.transaction_results import (
    EndTransactionResult,
    InitProducerResult,
    Result,
    VerifyPartitionsResult,
)
from ottla.groupcoord.transactions.transaction_scan import TransactionScan, load_shard
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.groupcoord.transactions.transaction_state import TransactionState
from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition

START_MS = 1_700_000_000_000
ID = "t"
FIRST_PRODUCER_ID = 1_000
P0, P1, Q0 = TopicPartition("p", 0), TopicPartition("p", 1), TopicPartition("q", 0)
Answer = Result | Refuse | CloseWithoutResponse
# The part of an answer that a test checks: an error, a pair, or NONE.
Seen = ErrorCode | ProducerPair | str | None


class TransactionWorld:
    def __init__(self, config: TransactionConfig | None = None, *, level: int = 2) -> None:
        # Requests wait only in tests about waiting: in others Kafka's answer comes at once.
        self.config = config or TransactionConfig(ottla_transaction_hold_ms=0)
        self.level = level
        self.now_ms = START_MS
        self.coordinator_epoch = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.appends: list[Sequence[TransactionRecord]] = []  # the records of each append
        self.read: dict[str, Transaction] = {}  # the log, replayed
        self.committed = 0  # records of the log that no crash can take away
        self.commits = True
        self.gated: list[tuple[int, Reply | Refuse | SendMarkers]] = []
        self.answers: dict[int, Answer] = {}
        self.requested: set[int] = set()
        self.jobs: list[MarkerJob] = []  # sent, and not all written
        self.timers: dict[TimerKey, tuple[int, int, Command]] = {}
        self.has_ids = True
        self.has_tags = (
            level >= 1
        )  # every record of the log has tagged fields, so that it has the whole state
        self.wanted_ids: list[NeedProducerId] = []
        self._tokens = itertools.count(1)
        self._sequence = itertools.count()
        self._producer_ids = itertools.count(FIRST_PRODUCER_ID)
        self.coordinator = self._new_coordinator()
        self._carry_out(self.coordinator.start(self.now_ms))

    def _new_coordinator(self) -> TransactionCoordinator:
        shard = TransactionShard(self.config, level=self.level, coordinator_epoch=self.coordinator_epoch)
        return TransactionCoordinator(shard)

    # ---- the node ------------------------------------------------------------------------------------------

    def handle(self, command: Command) -> list[Effect]:
        effects = self.coordinator.handle(command, self.now_ms)
        self._carry_out(effects)
        self.check()
        return effects

    def check(self) -> None:
        self.coordinator.check_invariants()
        live = self.coordinator.shard.transactions
        if self.has_tags:
            assert self.read == {each: replace(t, last_producer_epoch=NO_EPOCH) for each, t in live.items()}
        holds = {key.owner_id for key in self.timers if key.purpose == "hold"}
        assert holds == self.coordinator.shard.waiting.keys()

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        has_appended = False
        for effect in effects:
            match effect:
                case Append(records):
                    assert records
                    self.appends.append(records)
                    self._append(records)
                    has_appended = True
                case Reply(token, _, shows_state):
                    assert shows_state or effects.index(effect) > 0, "an answer without a reason to wait"
                    self.gated.append((len(self.log), effect))
                case Refuse() if has_appended:
                    self.gated.append((len(self.log), effect))
                case Refuse(token) | CloseWithoutResponse(token):
                    self._answer(token, effect)
                case SendMarkers(job):
                    t = self.coordinator.shard.transactions[job.transactional_id]
                    assert (job.producer_id, job.coordinator_epoch) == (t.producer_id, self.coordinator_epoch)
                    assert job.partitions == tuple(sorted(t.partitions)) and job.partitions
                    self.gated.append((len(self.log), effect))
                case NeedProducerId(command):
                    assert command.fresh_id is None
                    self.wanted_ids.append(effect)
                case StartTimer(key, delay_ms, command):
                    assert delay_ms >= 0
                    self.timers[key] = (self.now_ms + delay_ms, next(self._sequence), command)
                case CancelTimer(key):
                    del self.timers[key]
        if self.commits:
            self.commit()
        if self.has_ids:
            self.give_ids()

    def _append(self, records: Sequence[TransactionRecord]) -> None:
        self.has_tags = self.has_tags and self.level >= 1
        for transactional_id, t in records:
            key = encode_key(transactional_id)
            value = None if t is None else encode_value(t, self.level)
            self.log.append((key, value))
            self._read(key, value)

    def _read(self, key: bytes, value: bytes | None) -> None:
        transactional_id = decode_key(key)
        assert transactional_id is not None
        if value is None:
            del self.read[transactional_id]
            return
        t = decode_value(transactional_id, value)
        assert t is not None
        self.read[transactional_id] = t

    def commit(self, count: int | None = None) -> None:
        """Commit `count` more records, or all; answers and markers that waited for them leave."""
        self.committed = len(self.log) if count is None else min(len(self.log), self.committed + count)
        left = []
        for offset, effect in self.gated:
            if offset > self.committed:
                left.append((offset, effect))
            elif isinstance(effect, SendMarkers):
                self.jobs.append(effect.job)
            else:
                self._answer(effect.token, effect if isinstance(effect, Refuse) else effect.result)
        self.gated = left

    def _answer(self, token: int, answer: Answer) -> None:
        assert token in self.requested and token not in self.answers, f"token {token} answered twice"
        self.answers[token] = answer

    def give_ids(self) -> None:
        while self.wanted_ids:
            command = self.wanted_ids.pop(0).command
            self.handle(replace(command, fresh_id=next(self._producer_ids)))

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; timers fire in their order."""
        until_ms = self.now_ms + milliseconds
        while self.timers:
            key, (deadline_ms, _, command) = min(self.timers.items(), key=lambda item: item[1][:2])
            if deadline_ms > until_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline_ms)
            self.handle(command)
        self.now_ms = until_ms

    def crash(self) -> None:
        """Lose the coordinator and the uncommitted records; another coordinator loads the rest."""
        self._carry_out(self.coordinator.stop(ErrorCode.NOT_COORDINATOR))
        self.gated.clear()
        self.jobs.clear()
        self.timers.clear()
        self.wanted_ids.clear()
        del self.log[self.committed :]
        self.read.clear()
        for key, value in self.log:
            self._read(key, value)
        self.coordinator_epoch += 1
        self.coordinator = self._new_coordinator()
        scan = TransactionScan()
        for offset, (key, value) in enumerate(self.log):
            scan.feed(bytes(build_batch([(key, value, self.now_ms, ())], base_offset=offset)))
        load_shard(scan.finish(), self.coordinator.shard)
        self._carry_out(self.coordinator.start(self.now_ms))
        self.check()

    # ---- states --------------------------------------------------------------------------------------------

    def put(self, *states: Transaction) -> Transaction:
        """Append these states as records, as if they had come about; decided ones have markers under way."""
        for t in states:
            self._append([TransactionRecord(t.transactional_id, t)])
            self.coordinator.shard.replay(TransactionRecord(t.transactional_id, t))
        self.committed = len(self.log)
        self.check()
        return states[-1]

    def current(self, transactional_id: str = ID) -> Transaction:
        return self.coordinator.shard.transactions[transactional_id]

    @property
    def state(self) -> TransactionState:
        return self.current().state

    def waiting(self) -> set[int]:
        return self.requested - self.answers.keys()

    # ---- clients and brokers -------------------------------------------------------------------------------

    def token(self) -> int:
        token = next(self._tokens)
        self.requested.add(token)
        return token

    def seen(self, token: int) -> Seen:
        """Return the error of an answer, else its pair, else NONE; None if there is no answer yet."""
        match self.answers.get(token):
            case None:
                return None
            case Refuse(_, error, _):
                return error
            case CloseWithoutResponse():
                return "closed"
            case InitProducerResult(producer, _) | EndTransactionResult(producer):
                return producer
            case VerifyPartitionsResult(errors):
                (error,) = set(errors.values())
                return error
            case _:
                return ErrorCode.NONE

    def ask_init(
        self,
        expected: tuple[int, int] | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = 60_000,
        enable_2pc: bool = False,
        keep_prepared: bool = False,
    ) -> int:
        token = self.token()
        self.handle(
            InitProducer(
                token=token,
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                expected=None if expected is None else ProducerPair(*expected),
                enable_2pc=enable_2pc,
                keep_prepared=keep_prepared,
            )
        )
        return token

    def init(self, expected: tuple[int, int] | None = None, **fields: object) -> Seen:
        return self.seen(self.ask_init(expected, **fields))  # type: ignore[arg-type]

    def ask_add(
        self,
        pair: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = ID,
        client_version: int = CLIENT_V1,
        may_wait: bool = True,
    ) -> int:
        token = self.token()
        self.handle(
            AddPartitions(
                token=token,
                transactional_id=transactional_id,
                producer=ProducerPair(*pair),
                partitions=frozenset(partitions),
                client_version=client_version,
                may_wait=may_wait,
            )
        )
        return token

    def add(self, pair: tuple[int, int], *partitions: TopicPartition, **fields: object) -> Seen:
        return self.seen(self.ask_add(pair, *partitions, **fields))  # type: ignore[arg-type]

    def ask_verify(self, pair: tuple[int, int], *partitions: TopicPartition, id: str = ID) -> int:
        token = self.token()
        command = VerifyPartitions(
            token=token, transactional_id=id, producer=ProducerPair(*pair), partitions=frozenset(partitions)
        )
        self.handle(command)
        return token

    def verify(self, pair: tuple[int, int], *partitions: TopicPartition) -> Seen:
        return self.seen(self.ask_verify(pair, *partitions))

    def ask_end(
        self,
        pair: tuple[int, int],
        *,
        committed: bool = True,
        version: int = CLIENT_V1,
        connection: int = 1,
        transactional_id: str = ID,
    ) -> int:
        token = self.token()
        self.handle(
            EndTransaction(
                token=token,
                transactional_id=transactional_id,
                producer=ProducerPair(*pair),
                committed=committed,
                client_version=version,
                connection_number=connection,
            )
        )
        return token

    def end(self, pair: tuple[int, int], **fields: object) -> Seen:
        return self.seen(self.ask_end(pair, **fields))  # type: ignore[arg-type]

    def write_markers(self, job: MarkerJob | None = None, partitions: Iterable[TopicPartition] = ()) -> None:
        """Write the markers of a job, or of all jobs, to these partitions, or to all."""
        for each in list(self.jobs) if job is None else [job]:
            self.handle(
                MarkersWritten(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    marker_epoch=each.marker_epoch,
                    partitions=frozenset(partitions) or frozenset(each.partitions),
                )
            )
        shard = self.coordinator.shard
        self.jobs = [
            each
            for each in self.jobs
            if each.transactional_id in shard.markers_left
            and self.current(each.transactional_id).pair == (each.producer_id, each.marker_epoch)
        ]

    def transaction(
        self,
        pair: tuple[int, int],
        *partitions: TopicPartition,
        version: int = CLIENT_V2,
        committed: bool = True,
    ) -> Seen:
        """Run a whole transaction, with its markers; return the answer to its end."""
        assert self.add(pair, *partitions, client_version=version) is ErrorCode.NONE
        ended = self.end(pair, version=version, committed=committed)
        self.write_markers()
        return ended
