"""The driver's part of exactly-once: before a batch, at its decision, and after it has failed.

    begin     InitProducerId(T-c)  fences older drivers, and settles a record that one of them was writing
              read the record; commit those of its participants that are not yet
              new pairs for the slots of this batch, and for all that others left open: fences their tasks
    (tasks)   take a slot each by a ticket, write, end nothing
    commit    describe the participants: all are open, as the tasks left them
              the record, in a transaction of T-c; its commit is the decision
              commit each participant, and note that all are
              end what other attempts left open, if tickets tell that there were some

Whatever stops in between is found by the next `begin`: before the decision as transactions that are aborted,
after it as participants that are committed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import TwoPhase
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.client.retries import monotonic_ms
from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.client.transactions import Described
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.commit_record import CommitRecord, decode_record, encode_record
from ottla.pipeline.sink.decisions import (
    BatchExpired,
    TransactionsLost,
    expired,
    roll_forward,
    slots_to_prepare,
)
from ottla.pipeline.sink.sink_cluster import COORDINATING_TIMEOUT_MS, SinkCluster, has_two_phase
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.sink.slots import Names, Participant, Slot, incarnation_of, tickets_between
from ottla.pipeline.words import OptionError

# Slots of the first batch, of whose tasks nothing is known; each costs an id, and one too few no more.
FIRST_SLOTS: Final = 4
# A task that nobody waits for any more may begin a transaction after it was looked for. It holds back readers
# of its partitions, so it is looked for again.
SWEEP_INTERVAL_MS: Final = 60_000
NEVER_MS: Final = -SWEEP_INTERVAL_MS - 1
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incarnation:
    """What a process that plans batches remembers of its last one."""

    number: int
    begun: Begun
    swept_ms: int


class Driver:
    """One sink's driver. `incarnations` is what the process remembers of its batches, by id; what it has
    forgotten costs time alone."""

    def __init__(
        self, options: SinkOptions, cluster: SinkCluster, incarnations: dict[SinkOptions, "_Incarnation"]
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._incarnations = incarnations
        self._names = Names(options.transactional_id)

    # ---- before a batch ---------------------------------------------------------------------------

    def begin(self) -> Begun:
        """Take over from whoever was here before, and prepare the slots of a batch.

        TransactionsLost where a decided batch can not be completed; OptionError; KafkaError.
        """
        incarnation = self._incarnations.pop(self._options, None)
        names = self._names
        pairs = self._cluster.init(
            [names.coordinating, names.tickets], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False
        )
        generation, ticket = pairs[names.coordinating], pairs[names.tickets]
        record = None if incarnation is None else self._complete(generation)
        used = None if incarnation is None else tickets_between(incarnation.begun.first_ticket, ticket)
        if incarnation is None or not _is_settled(incarnation, record, used):
            incarnation = None
            self._cluster.settle_record(names.group_id)
            record = self._complete(generation)
        number, timeout_ms, two_phase = self._new_incarnation() if incarnation is None else _of(incarnation)
        handed_out = () if incarnation is None else [one.slot for one in incarnation.begun.slots]
        now_ms = monotonic_ms()
        is_due = (
            incarnation is None
            or (used or 0) > len(handed_out)
            or now_ms - incarnation.swept_ms > SWEEP_INTERVAL_MS
        )
        left_open = self._left_open(generation) if is_due else None
        # One more than last time: a task that is tried again finds a slot, too.
        count = 1 + max(used or 0, len(record.participants if record else ()) or FIRST_SLOTS)
        free, fenced = slots_to_prepare(
            incarnation=number, count=count, handed_out=handed_out, left_open=left_open or (), record=record
        )
        given = self._cluster.init(
            [names.of(slot) for slot in fenced], timeout_ms=timeout_ms, two_phase=two_phase
        )
        begun = Begun(
            generation=generation,
            first_ticket=ticket,
            incarnation=number,
            slots=tuple(Participant(slot, given[names.of(slot)]) for slot in free),
            timeout_ms=timeout_ms,
            two_phase=two_phase,
            record=record,
        )
        # Where nobody could tell, it is due again at once.
        swept_ms = (
            now_ms if left_open is not None else incarnation.swept_ms if incarnation is not None else NEVER_MS
        )
        self._incarnations[self._options] = _Incarnation(number=number, begun=begun, swept_ms=swept_ms)
        return begun

    def _complete(self, generation: ProducerPair) -> CommitRecord | None:
        """The newest record, once every participant of it is committed. `generation` is this driver's."""
        offset = self._cluster.read_record(self._names.group_id)
        if offset is None:
            return None
        record = decode_record(offset.metadata)
        described = self._describe([one.slot for one in record.participants])
        left = roll_forward(record, described, was_completed=self._was_completed(record, described))
        if left.lost:
            self._check_newest(generation)  # else they may have been committed, and begun again since
            raise TransactionsLost(
                record.batch_id, tuple(self._names.of(one.slot) for one in left.lost), left.outcome
            )
        self._commit_all(record.batch_id, left.to_commit, generation)
        if left.to_commit:
            self._note_completed(record)
        return record

    def _was_completed(self, record: CommitRecord, described: Mapping[Slot, Described | None]) -> bool:
        """Whether it is noted so; asked only where an id is forgotten, as after a week at rest."""
        if record.two_phase or None not in described.values():
            return False
        noted, wanted = self._cluster.read_completed(self._names.group_id), _note_of(record)
        return noted is not None and (noted.offset, noted.metadata) == (wanted.offset, wanted.metadata)

    def _note_completed(self, record: CommitRecord) -> None:
        """An older driver may overwrite what a newer one has noted: then ids count as lost, not as there."""
        if not record.two_phase:
            self._cluster.note_completed(self._names.group_id, _note_of(record))

    def _new_incarnation(self) -> tuple[int, int, bool]:
        """A number for it, how long its transactions may be open, and whether they have two phases."""
        wanted, name = self._options.client.two_phase, self._names.incarnations
        two_phase = wanted is not TwoPhase.NEVER and has_two_phase(self._cluster, name)
        if wanted is TwoPhase.ALWAYS and not two_phase:
            raise OptionError(
                PREFIX + "transaction.two.phase.commit.enable",
                "is true, but the cluster does not allow it: set "
                "transaction.two.phase.commit.enable on its nodes",
            )
        pair = self._cluster.init([name], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)[name]
        timeout_ms = self._options.client.transaction_timeout_ms or self._cluster.max_timeout_ms()
        self._cluster.keep_record(self._names.group_id)
        return incarnation_of(pair), timeout_ms, two_phase

    def _left_open(self, generation: ProducerPair) -> set[Slot] | None:
        """Slots whose transaction is open, of drivers and tasks before; None if nobody can tell."""
        found = self._cluster.list_open(self._names.prefix)
        if found is None:
            return None
        slots = self._names.slots_among(found)
        # A newer driver may have begun before the list was made. If it has not by now, none of its slots is
        # in it; later it may begin as it likes, for its slots are others.
        if slots:
            self._check_newest(generation)
        return slots

    def _check_newest(self, generation: ProducerPair) -> None:
        """PRODUCER_FENCED if a newer driver has begun."""
        name = self._names.coordinating
        told = self._cluster.describe([name])[name]
        if told is None or told.pair != generation:
            raise self._fenced(ErrorCode.PRODUCER_FENCED)

    def _fenced(self, code: ErrorCode) -> KafkaError:
        return KafkaError(
            code,
            f"a newer driver uses transactional.id={self._names.group_id}: give each "
            "of two queries that run at once an id, and a checkpoint, of its own",
        )

    # ---- after a batch ----------------------------------------------------------------------------

    def commit(self, reports: Sequence[TaskReport], batch_id: int) -> None:
        """Decide over a batch and complete it.

        BatchExpired and OptionError before the decision; TransactionsLost after it; KafkaError, when nobody
        knows: the next `begin` finds out.
        """
        written = {one.participant: one.partitions for one in reports if one.participant is not None}
        if not written:
            if any(one.is_drained for one in reports):
                self._note_run(reports[0])
            return
        first = reports[0]
        assert all((one.run, one.generation) == (first.run, first.generation) for one in reports), reports
        assert len(written) == sum(one.participant is not None for one in reports), "a slot is one task's"
        assert first.run.batch_id == batch_id, (first.run, batch_id)
        record = CommitRecord(
            query_id=first.run.query_id,
            run_id=first.run.run_id,
            batch_id=batch_id,
            generation=first.generation,
            two_phase=first.two_phase,
            participants=tuple(sorted(written)),
        )
        told = self._cluster.describe([*(self._names.of(one.slot) for one in written), self._names.tickets])
        ended = expired(written, {one.slot: told[self._names.of(one.slot)] for one in written})
        if ended:
            names = tuple(self._names.of(one.slot) for one in ended)
            raise BatchExpired(batch_id, names, next(iter(ended.values())))
        self._decide(record)
        self._commit_all(batch_id, record.participants, record.generation)
        self._note_completed(record)
        if _has_others(first.first_ticket, told[self._names.tickets], len(written)):
            self._end_other_attempts(record)

    def _decide(self, record: CommitRecord) -> None:
        """Make it the newest record; KafkaError if a newer driver has begun, or nobody knows."""
        name = self._names.coordinating
        offset = CommittedOffset(offset=record.batch_id + 1, metadata=encode_record(record))
        try:
            self._cluster.write_record(name, record.generation, self._names.group_id, offset)
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            raise self._fenced(error.code) from None
        refused = self._cluster.end({name: record.generation}, commit=True)[name]
        if refused is not None:
            raise refused

    def _note_run(self, report: TaskReport) -> None:
        """Write the record of a batch that was there already as this run's. Who writes the batch once more in
        this run is a second write of a foreachBatch, whose rows were lost if it were passed over as well.

        All that took part was committed when this driver began, so nobody need look after it any more.
        """
        offset = self._cluster.read_record(self._names.group_id)
        assert offset is not None, "the tasks have read it"
        record = decode_record(offset.metadata)
        run_id, generation = report.run.run_id, report.generation
        self._decide(replace(record, run_id=run_id, generation=generation, participants=()))

    def _end_other_attempts(self, record: CommitRecord) -> None:
        """Attempts that were given up may have left transactions open, which hold back readers until the next
        batch; that may be far off. What goes wrong here is for the next `begin`."""
        try:
            left_open = self._left_open(record.generation) or set()
            others = sorted(left_open - {one.slot for one in record.participants})
            if others:
                names = [self._names.of(slot) for slot in others]
                self._cluster.init(names, timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)
        except KafkaError:
            pass

    def abort(self, reports: Sequence[TaskReport], batch_id: int) -> None:
        """End what a failed batch left open, as far as it is known; one that was decided is completed.

        Tasks may be at work yet, so `begin` ends again what it finds.
        """
        if not reports:
            return
        name, generation = self._names.coordinating, reports[0].generation
        told = self._cluster.describe([name])[name]
        if told is None or told.pair != generation:
            return  # another driver has begun, and everything is its matter
        # From here on a commit that is still at work can not decide.
        newest = self._cluster.init([name], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)[name]
        record = self._complete(newest)
        if record is not None and record.generation == generation:
            return
        open_ones = [one.participant for one in reports if one.participant is not None]
        self._cluster.end({self._names.of(one.slot): one.pair for one in open_ones}, commit=False)

    # ---- participants -----------------------------------------------------------------------------

    def _describe(self, slots: Sequence[Slot]) -> Mapping[Slot, Described | None]:
        told = self._cluster.describe([self._names.of(slot) for slot in slots])
        return {slot: told[self._names.of(slot)] for slot in slots}

    def _commit_all(
        self, batch_id: int, participants: Sequence[Participant], generation: ProducerPair
    ) -> None:
        pairs = {self._names.of(one.slot): one.pair for one in participants}
        if not pairs:
            return
        refusals = {name: error for name, error in self._cluster.end(pairs, commit=True).items() if error}
        if refusals:
            self._check_newest(generation)
            raise TransactionsLost(batch_id, tuple(refusals), str(next(iter(refusals.values()))))


def _is_settled(incarnation: _Incarnation, record: CommitRecord | None, used: int | None) -> bool:
    """Whether nothing is left of the last batch that this process has planned: it is decided, or no task of
    it has taken a ticket. Else somebody may be at work for it still."""
    was_decided = record is not None and record.generation == incarnation.begun.generation
    return used is not None and (was_decided or used == 0)


def _has_others(first_ticket: ProducerPair, tickets: Described | None, participants: int) -> bool:
    """Whether more attempts took tickets than take part in a batch; in doubt yes."""
    between = None if tickets is None else tickets_between(first_ticket, tickets.pair)
    return between is None or between + 1 > participants


def _note_of(record: CommitRecord) -> CommittedOffset:
    """A generation decides once, so it tells one record from all others."""
    producer_id, epoch = record.generation
    return CommittedOffset(offset=record.batch_id + 1, metadata=f"{producer_id}:{epoch}")


def _of(incarnation: _Incarnation) -> tuple[int, int, bool]:
    return incarnation.number, incarnation.begun.timeout_ms, incarnation.begun.two_phase
