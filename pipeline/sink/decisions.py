"""What a driver and its tasks decide from what they have read: pure, so that every case can be tried.

A batch is *decided* when its commit record is committed. Until then nothing of it counts, and whoever comes
next aborts it; from then on all of it counts, and whoever comes next completes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.transactions import Described
from ottla.pipeline.sink.commit_record import CommitRecord
from ottla.pipeline.sink.slots import Participant, Slot
from ottla.pipeline.words import OptionError

OPEN = "Ongoing"
# A coordinator that has decided answers before the markers are written.
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})


class TransactionsLost(Exception):
    """Transactions of a decided batch that can never be committed: rows are missing, the query must stop."""

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
    """Transactions that ended before the batch was decided: nothing of it counts, and it runs again."""

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


class Verdict(Enum):
    """What a task does with its rows."""

    WRITE = "write"
    DRAIN = "drain"  # they are there already


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """Which batch of which query a task works for, in which run of it."""

    query_id: UUID
    run_id: UUID
    batch_id: int


def judge_batch(run: BatchRun, record: CommitRecord | None, *, takes_over: bool) -> Verdict:
    """Whether the rows of a batch are there already; OptionError where the record is not this query's."""
    if record is None:
        return Verdict.WRITE
    if record.query_id != run.query_id:
        if takes_over:
            return Verdict.WRITE
        raise OptionError(
            "transactional.id",
            f"belongs to query {record.query_id}, not to {run.query_id}: use another "
            "id, or set transactional.id.takeover=true if that query and its "
            "checkpoint no longer exist",
        )
    if run.batch_id > record.batch_id:
        return Verdict.WRITE
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
    return Verdict.DRAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class RollForward:
    """What is left to do for a decided batch."""

    to_commit: tuple[Participant, ...]
    lost: tuple[Participant, ...]
    outcome: str  # of the first that is lost, in the coordinator's words


def roll_forward(
    record: CommitRecord, described: Mapping[Slot, Described | None], *, was_completed: bool = False
) -> RollForward:
    """Which participants are still to be committed, and which never can be.

    Nobody takes a new pair for a slot of the newest record, so a pair that is another one was taken by a
    coordinator when time was over. An id that no coordinator knows was at rest for a week: committed, where
    it could not expire, or where somebody has noted that all were (`was_completed`).
    """
    to_commit, lost, outcome = [], [], ""
    for participant in record.participants:
        told = described[participant.slot]
        if told is None:
            if record.two_phase or was_completed:
                continue
        elif told.pair == participant.pair:
            if told.state == OPEN:
                to_commit.append(participant)
                continue
            if told.state in COMMITTED:
                continue
        lost.append(participant)
        outcome = outcome or ("the coordinator does not know it" if told is None else f"it is {told.state}")
    return RollForward(to_commit=tuple(to_commit), lost=tuple(lost), outcome=outcome)


def expired(
    parts: Mapping[Participant, frozenset[TopicPartition]], described: Mapping[Slot, Described | None]
) -> dict[Participant, str]:
    """The participants of an undecided batch that can not be committed any more, with their states.

    Not only the pair counts: a transaction that was ended and begun again under it has lost its rows.
    """
    found = {}
    for participant, partitions in parts.items():
        told = described[participant.slot]
        if told is None:
            found[participant] = "the coordinator does not know it"
        elif told.pair != participant.pair or told.state != OPEN or not partitions <= told.partitions:
            found[participant] = f"it is {told.state}"
    return found


def slots_to_prepare(
    *,
    incarnation: int,
    count: int,
    handed_out: Iterable[Slot],
    left_open: Iterable[Slot],
    record: CommitRecord | None,
) -> tuple[list[Slot], list[Slot]]:
    """The slots for a batch's tasks, and all that get a new pair before it, which fences whoever had them.

    Never one of the newest record: that its pair is the same as ever tells that it was committed.
    """
    taken = {participant.slot for participant in record.participants} if record else set()
    free: list[Slot] = []
    number = 0
    while len(free) < count:
        if (slot := Slot(incarnation, number)) not in taken:
            free.append(slot)
        number += 1
    fenced = ({*handed_out, *left_open} - taken) | {*free}
    return free, sorted(fenced)
