"""The decisions of a driver and its tasks from what they have read: pure, so that every case can be tested.

A batch is *decided* when its commit record is committed. Until then none of it counts, and the next driver
aborts it; from then on all of it counts, and the next driver completes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.transactions import TransactionDescription
from ottla.pipeline.sink.commit_record import CommitRecord
from ottla.pipeline.sink.slots import Participant, Slot
from ottla.pipeline.words import OptionError

OPEN = "Ongoing"
# A coordinator answers after its decision, before the markers are written.
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})


class TransactionsLost(Exception):
    """Transactions of a decided batch that can never be committed. Rows are missing: the query must stop."""

    def __init__(self, batch_id: int, names: tuple[str, ...], outcome: str) -> None:
        super().__init__(batch_id, names, outcome)
        self.batch_id = batch_id
        self.names = names
        self.outcome = outcome

    def __str__(self) -> str:
        return (
            f"Batch {self.batch_id} was decided, but its rows in these transactions "
            f"are lost: {', '.join(self.names)} ({self.outcome}). The transactions "
            "expired before they were committed: the query was restarted later than "
            "kafka.transaction.timeout.ms after the decision. The query stops, "
            "because it would otherwise go on without these rows."
        )


class BatchExpired(Exception):
    """Transactions that ended before the batch was decided: none of it counts, and it runs again."""

    def __init__(self, batch_id: int, names: tuple[str, ...], outcome: str) -> None:
        super().__init__(batch_id, names, outcome)
        self.batch_id = batch_id
        self.names = names
        self.outcome = outcome

    def __str__(self) -> str:
        return (
            f"Batch {self.batch_id} was not written: {', '.join(self.names)} ended "
            f"before the decision ({self.outcome}), by a newer driver or "
            "kafka.transaction.timeout.ms. The batch is run again at the next start."
        )


class WriteDecision(Enum):
    """A task's decision about its rows."""

    WRITE = "write"
    DRAIN = "drain"  # they are already in the topic


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """The query, the run and the batch that a task works for."""

    query_id: UUID
    run_id: UUID
    batch_id: int


def decide_batch(run: BatchRun, record: CommitRecord | None, *, takes_over: bool) -> WriteDecision:
    """Decide whether the rows of a batch must be written; OptionError if the record is not of this query."""
    if record is None:
        return WriteDecision.WRITE
    if record.query_id != run.query_id:
        if takes_over:
            return WriteDecision.WRITE
        raise OptionError(
            "transactional.id",
            f"belongs to query {record.query_id}, not to {run.query_id}: use another "
            "id, or set transactional.id.takeover=true if that query and its "
            "checkpoint no longer exist",
        )
    if run.batch_id > record.batch_id:
        return WriteDecision.WRITE
    if run.batch_id < record.batch_id:
        raise OptionError(
            "checkpointLocation",
            f"is at batch {run.batch_id}, but batch {record.batch_id} was already "
            "written: the checkpoint is an older copy",
        )
    if run.run_id == record.run_id:
        raise OptionError(
            "transactional.id",
            f"has already written batch {run.batch_id}: a second write in "
            "foreachBatch needs a transactional.id of its own",
        )
    return WriteDecision.DRAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class RollForward:
    """The work that is left for a decided batch."""

    to_commit: tuple[Participant, ...]
    lost: tuple[Participant, ...]
    outcome: str  # the coordinator's state of the first lost one


def roll_forward(
    record: CommitRecord,
    described: Mapping[Slot, TransactionDescription | None],
    *,
    was_completed: bool = False,
) -> RollForward:
    """Return the participants that must still be committed, and those that never can be.

    No driver takes a new pair for a slot of the newest record. So if a slot has another pair, the coordinator
    took it when the transaction timed out. An id that no coordinator knows was idle for a week: it is
    committed if it could not time out, or if a note says that all participants were (`was_completed`).
    """
    to_commit, lost, outcome = [], [], ""
    for participant in record.participants:
        transaction = described[participant.slot]
        if transaction is None:
            if record.two_phase or was_completed:
                continue
        elif transaction.pair == participant.pair:
            if transaction.state == OPEN:
                to_commit.append(participant)
                continue
            if transaction.state in COMMITTED:
                continue
        lost.append(participant)
        outcome = outcome or (
            "the coordinator does not know it" if transaction is None else f"it is {transaction.state}"
        )
    return RollForward(to_commit=tuple(to_commit), lost=tuple(lost), outcome=outcome)


def find_expired(
    parts: Mapping[Participant, frozenset[TopicPartition]],
    described: Mapping[Slot, TransactionDescription | None],
) -> dict[Participant, str]:
    """Return the participants of an undecided batch that can no longer be committed, with their states.

    The pair alone is not enough: a transaction that was ended and begun again with it has lost its rows.
    """
    found = {}
    for participant, partitions in parts.items():
        transaction = described[participant.slot]
        if transaction is None:
            found[participant] = "the coordinator does not know it"
        elif (
            transaction.pair != participant.pair
            or transaction.state != OPEN
            or not partitions <= transaction.partitions
        ):
            found[participant] = f"it is {transaction.state}"
    return found


def slots_to_prepare(
    *,
    incarnation: int,
    count: int,
    earlier_slots: Iterable[Slot],
    left_open: Iterable[Slot],
    record: CommitRecord | None,
) -> tuple[list[Slot], list[Slot]]:
    """Return the slots for a batch's tasks, and all slots to be fenced by a new pair before the batch.

    No slot of the newest record is among them: its unchanged pair proves that it was committed.
    """
    taken = {participant.slot for participant in record.participants} if record else set()
    free: list[Slot] = []
    number = 0
    while len(free) < count:
        if (slot := Slot(incarnation, number)) not in taken:
            free.append(slot)
        number += 1
    fenced = ({*earlier_slots, *left_open} - taken) | {*free}
    return free, sorted(fenced)
