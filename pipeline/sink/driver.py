"""The driver's part of exactly-once: before a batch, at its decision, and after a failure.

    begin     InitProducerId(T-c)  fences older drivers, and settles a record that one of them was writing
              read the record; commit those of its participants that are not committed
              new pairs for the slots of this batch, and for all that others left open: fences their tasks
    (tasks)   take a slot each by a ticket, write, end nothing
    commit    describe the participants: all are open, as the tasks left them
              the record, in a transaction of T-c; its commit is the decision
              commit each participant, and note that all are committed
              end what other attempts left open, if tickets show that there were some

`slots` explains T-c and the other names; a pair is a producer id with its epoch. After a crash in between,
the next `begin` finds transactions to abort if it was before the decision, and participants to commit if it
was after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.client_settings import TwoPhase
from ottla.pipeline.client.clock import monotonic_ms
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.client.transactions import TransactionDescription
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.commit_record import CommitRecord, decode_record, encode_record
from ottla.pipeline.sink.decisions import (
    BatchExpired,
    TransactionsLost,
    find_expired,
    roll_forward,
    slots_to_prepare,
)
from ottla.pipeline.sink.sink_cluster import COORDINATING_TIMEOUT_MS, SinkCluster, has_two_phase
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.sink.slots import Names, Participant, Slot, incarnation_of, tickets_between
from ottla.pipeline.words import OptionError

# The slots of the first batch, whose number of tasks is unknown. A slot that no task takes costs a
# transactional id, and so does a task for which there is no slot.
FIRST_SLOTS: Final = 4
# A task that Spark gave up may begin a transaction after open ones were last looked for. It would hold back
# readers of its partitions, so they are looked for again.
SWEEP_INTERVAL_MS: Final = 60_000
NEVER_MS: Final = -SWEEP_INTERVAL_MS - 1
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incarnation:
    """The last batch that this process planned, kept for the next."""

    number: int
    begun: Begun
    swept_ms: int


class Driver:
    """The driver of one sink.

    `incarnations` has the last batch of each sink that this process planned, by options; without it `begin`
    only takes longer.
    """

    def __init__(
        self, options: SinkOptions, cluster: SinkCluster, incarnations: dict[SinkOptions, "_Incarnation"]
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._incarnations = incarnations
        self._names = Names(options.transactional_id)

    # ---- before a batch ---------------------------------------------------------------------------

    def begin(self) -> Begun:
        """Take over from the previous driver, and prepare the slots of a batch.

        Raises TransactionsLost if a decided batch cannot be completed; OptionError; KafkaError.
        """
        incarnation = self._incarnations.pop(self._options, None)
        names = self._names
        pairs = self._cluster.init(
            [names.coordinating, names.tickets], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False
        )
        generation, ticket = pairs[names.coordinating], pairs[names.tickets]
        record = None if incarnation is None else self._complete(generation)
        used = None if incarnation is None else tickets_between(incarnation.begun.driver_ticket, ticket)
        if incarnation is None or not _is_complete(incarnation, record, used):
            incarnation = None
            self._cluster.refresh_coordinator(names.group_id)
            record = self._complete(generation)
        number, timeout_ms, two_phase = (
            self._new_incarnation() if incarnation is None else _settings_of(incarnation)
        )
        earlier_slots = () if incarnation is None else [one.slot for one in incarnation.begun.slots]
        now_ms = monotonic_ms()
        is_due = (
            incarnation is None
            or (used or 0) > len(earlier_slots)
            or now_ms - incarnation.swept_ms > SWEEP_INTERVAL_MS
        )
        left_open = self._left_open(generation) if is_due else None
        # One more than last time, so that a task that is tried again finds a slot, too.
        count = 1 + max(used or 0, len(record.participants if record else ()) or FIRST_SLOTS)
        free, fenced = slots_to_prepare(
            incarnation=number,
            count=count,
            earlier_slots=earlier_slots,
            left_open=left_open or (),
            record=record,
        )
        given = self._cluster.init(
            [names.id_of_slot(slot) for slot in fenced], timeout_ms=timeout_ms, two_phase=two_phase
        )
        begun = Begun(
            generation=generation,
            driver_ticket=ticket,
            incarnation=number,
            slots=tuple(Participant(slot, given[names.id_of_slot(slot)]) for slot in free),
            timeout_ms=timeout_ms,
            two_phase=two_phase,
            record=record,
        )
        # If the open transactions could not be listed, the next batch tries again.
        swept_ms = (
            now_ms if left_open is not None else incarnation.swept_ms if incarnation is not None else NEVER_MS
        )
        self._incarnations[self._options] = _Incarnation(number=number, begun=begun, swept_ms=swept_ms)
        return begun

    def _complete(self, generation: ProducerPair) -> CommitRecord | None:
        """Commit every participant of the newest record, and return it.

        `generation` is this driver's pair of T-c.
        """
        offset = self._cluster.read_record(self._names.group_id)
        if offset is None:
            return None
        record = decode_record(offset.metadata)
        described = self._describe([one.slot for one in record.participants])
        left = roll_forward(record, described, was_completed=self._was_completed(record, described))
        if left.lost:
            self._check_newest(generation)  # else they may have been committed, and begun again since
            raise TransactionsLost(
                record.batch_id, tuple(self._names.id_of_slot(one.slot) for one in left.lost), left.outcome
            )
        self._commit_all(record.batch_id, left.to_commit, generation)
        if left.to_commit:
            self._note_completed(record)
        return record

    def _was_completed(
        self, record: CommitRecord, described: Mapping[Slot, TransactionDescription | None]
    ) -> bool:
        """Return True if a note says that the participants were committed; asked only if an id is forgotten.

        Coordinators forget ids after a week without use.
        """
        if record.two_phase or None not in described.values():
            return False
        known, wanted = self._cluster.read_completed(self._names.group_id), _completion_note(record)
        return known is not None and (known.offset, known.metadata) == (wanted.offset, wanted.metadata)

    def _note_completed(self, record: CommitRecord) -> None:
        """Note that all participants are committed.

        An older driver may overwrite a newer note: then forgotten ids count as lost, never as committed.
        """
        if not record.two_phase:
            self._cluster.note_completed(self._names.group_id, _completion_note(record))

    def _new_incarnation(self) -> tuple[int, int, bool]:
        """Begin a new incarnation.

        Returns its number, the timeout of its transactions, and True if they have two phases.
        """
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
        """Return the slots with open transactions of earlier drivers and tasks; None if they are unknown."""
        found = self._cluster.list_open(self._names.prefix)
        if found is None:
            return None
        slots = self._names.slots_among(found)
        # A newer driver may have begun before the list was made. If none has by now, none of its slots is in
        # the list; if one begins later, its slots are others.
        if slots:
            self._check_newest(generation)
        return slots

    def _check_newest(self, generation: ProducerPair) -> None:
        """Raise PRODUCER_FENCED if a newer driver has begun."""
        name = self._names.coordinating
        described = self._cluster.describe([name])[name]
        if described is None or described.pair != generation:
            raise self._fenced(ErrorCode.PRODUCER_FENCED)

    def _fenced(self, code: ErrorCode) -> KafkaError:
        return KafkaError(
            code,
            f"a newer driver uses transactional.id={self._names.group_id}: give each "
            "of two queries that run at once an id, and a checkpoint, of its own",
        )

    # ---- after a batch ----------------------------------------------------------------------------

    def commit(self, reports: Sequence[TaskReport], batch_id: int) -> None:
        """Decide a batch and complete it.

        Raises BatchExpired and OptionError before the decision, and TransactionsLost after it. After a
        KafkaError it is unknown whether the batch is decided: the next `begin` finds out.
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
        described = self._cluster.describe(
            [*(self._names.id_of_slot(one.slot) for one in written), self._names.tickets]
        )
        ended = find_expired(
            written, {one.slot: described[self._names.id_of_slot(one.slot)] for one in written}
        )
        if ended:
            names = tuple(self._names.id_of_slot(one.slot) for one in ended)
            raise BatchExpired(batch_id, names, next(iter(ended.values())))
        self._decide(record)
        self._commit_all(batch_id, record.participants, record.generation)
        self._note_completed(record)
        if _has_others(first.driver_ticket, described[self._names.tickets], len(written)):
            self._end_other_attempts(record)

    def _decide(self, record: CommitRecord) -> None:
        """Make `record` the newest; KafkaError if a newer driver has begun, or the outcome is unknown."""
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
        """Write the record of an already written batch again, under the id of this run.

        So a second write of the batch in this run is recognised as one of a foreachBatch; if it were skipped
        as well, its rows would be lost. The participants were all committed when this driver began, so the
        new record has none.
        """
        offset = self._cluster.read_record(self._names.group_id)
        assert offset is not None, "the tasks have read it"
        record = decode_record(offset.metadata)
        run_id, generation = report.run.run_id, report.generation
        self._decide(replace(record, run_id=run_id, generation=generation, participants=()))

    def _end_other_attempts(self, record: CommitRecord) -> None:
        """End the transactions that abandoned attempts may have left open.

        They would hold back readers until the next batch, which may be far off. Errors are left to the next
        `begin`.
        """
        try:
            left_open = self._left_open(record.generation) or set()
            others = sorted(left_open - {one.slot for one in record.participants})
            if others:
                names = [self._names.id_of_slot(slot) for slot in others]
                self._cluster.init(names, timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)
        except KafkaError:
            pass

    def abort(self, reports: Sequence[TaskReport], batch_id: int) -> None:
        """End the transactions that a failed batch left open, as far as known; complete it if it was decided.

        Tasks may still be running, so `begin` ends again what it finds.
        """
        if not reports:
            return
        name, generation = self._names.coordinating, reports[0].generation
        described = self._cluster.describe([name])[name]
        if described is None or described.pair != generation:
            return  # another driver has begun, and takes care of everything
        # From here on a commit that is still running cannot decide.
        newest = self._cluster.init([name], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=False)[name]
        record = self._complete(newest)
        if record is not None and record.generation == generation:
            return
        open_ones = [one.participant for one in reports if one.participant is not None]
        self._cluster.end({self._names.id_of_slot(one.slot): one.pair for one in open_ones}, commit=False)

    # ---- participants -----------------------------------------------------------------------------

    def _describe(self, slots: Sequence[Slot]) -> Mapping[Slot, TransactionDescription | None]:
        described = self._cluster.describe([self._names.id_of_slot(slot) for slot in slots])
        return {slot: described[self._names.id_of_slot(slot)] for slot in slots}

    def _commit_all(
        self, batch_id: int, participants: Sequence[Participant], generation: ProducerPair
    ) -> None:
        pairs = {self._names.id_of_slot(one.slot): one.pair for one in participants}
        if not pairs:
            return
        refusals = {name: error for name, error in self._cluster.end(pairs, commit=True).items() if error}
        if refusals:
            self._check_newest(generation)
            raise TransactionsLost(batch_id, tuple(refusals), str(next(iter(refusals.values()))))


def _is_complete(incarnation: _Incarnation, record: CommitRecord | None, used: int | None) -> bool:
    """Return True if no task works on the last batch that this process planned.

    This is certain if the batch is decided, or if none of its tasks has taken a ticket.
    """
    was_decided = record is not None and record.generation == incarnation.begun.generation
    return used is not None and (was_decided or used == 0)


def _has_others(
    driver_ticket: ProducerPair, tickets: TransactionDescription | None, participants: int
) -> bool:
    """Return True if more attempts took tickets than take part in a batch, or if that is unknown."""
    between = None if tickets is None else tickets_between(driver_ticket, tickets.pair)
    return between is None or between + 1 > participants


def _completion_note(record: CommitRecord) -> CommittedOffset:
    """Return the note about a record; a generation decides only once, so it identifies the record."""
    producer_id, epoch = record.generation
    return CommittedOffset(offset=record.batch_id + 1, metadata=f"{producer_id}:{epoch}")


def _settings_of(incarnation: _Incarnation) -> tuple[int, int, bool]:
    """Return the values that `_new_incarnation` returned when this incarnation began."""
    return incarnation.number, incarnation.begun.timeout_ms, incarnation.begun.two_phase
