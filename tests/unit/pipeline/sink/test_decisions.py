"""The decisions of drivers and tasks: what is written, completed, lost or fenced."""

from uuid import UUID

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.transactions import TransactionDescription
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.commit_record import CommitRecord
from ottla.pipeline.sink.decisions import (
    BatchExpired,
    BatchRun,
    TransactionsLost,
    WriteDecision,
    decide_batch,
    find_expired,
    roll_forward,
    slots_to_prepare,
)
from ottla.pipeline.sink.slots import INCARNATIONS, Names, Participant, Slot, incarnation_of, tickets_between
from ottla.pipeline.words import OptionError

QUERY, OTHER, RUN, LATER = (UUID(int=number) for number in range(1, 5))
PART = Participant(Slot(1, 0), ProducerPair(10, 2))
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def record(*, two_phase: bool = False, slots: int = 1) -> CommitRecord:
    return CommitRecord(
        query_id=QUERY,
        run_id=RUN,
        batch_id=7,
        generation=ProducerPair(1, 1),
        two_phase=two_phase,
        participants=tuple(Participant(Slot(1, number), ProducerPair(10, 2)) for number in range(slots)),
    )


def description(
    state: str, pair: ProducerPair = PART.pair, partitions: frozenset[TopicPartition] | None = None
) -> TransactionDescription:
    there = frozenset({HERE}) if partitions is None else partitions
    return TransactionDescription(state=state, pair=pair, start_ms=0, timeout_ms=1, partitions=there)


def run(batch_id: int, query_id: UUID = QUERY, run_id: UUID = LATER) -> BatchRun:
    return BatchRun(query_id=query_id, run_id=run_id, batch_id=batch_id)


def test_a_batch_is_written_unless_the_record_shows_that_it_was() -> None:
    assert decide_batch(run(0), None, takes_over=False) is WriteDecision.WRITE
    assert decide_batch(run(8), record(), takes_over=False) is WriteDecision.WRITE
    assert decide_batch(run(9), record(), takes_over=False) is WriteDecision.WRITE
    assert decide_batch(run(7), record(), takes_over=False) is WriteDecision.DRAIN


def test_a_record_of_another_query_is_refused_or_taken_over() -> None:
    with pytest.raises(OptionError, match=r"transactional.id: belongs to query .*0001, not to .*0002"):
        decide_batch(run(0, OTHER), record(), takes_over=False)

    assert decide_batch(run(0, OTHER), record(), takes_over=True) is WriteDecision.WRITE


def test_an_older_checkpoint_and_a_second_write_are_refused() -> None:
    with pytest.raises(OptionError, match=r"checkpointLocation: is at batch 6, but batch 7 was"):
        decide_batch(run(6), record(), takes_over=True)
    with pytest.raises(OptionError, match=r"transactional\.id: has already written batch 7"):
        decide_batch(run(7, run_id=RUN), record(), takes_over=True)


@pytest.mark.parametrize(
    ("described", "two_phase", "outcome"),
    [
        (description("Ongoing"), False, "commit"),
        (description("PrepareCommit"), False, "done"),
        (description("CompleteCommit"), False, "done"),
        (description("PrepareAbort"), False, "it is PrepareAbort"),
        (description("CompleteAbort"), True, "it is CompleteAbort"),
        (description("Empty"), False, "it is Empty"),
        (description("Ongoing", ProducerPair(10, 3)), False, "it is Ongoing"),
        (description("CompleteCommit", ProducerPair(11, 2)), False, "it is CompleteCommit"),
        (None, False, "the coordinator does not know it"),
        (None, True, "done"),
    ],
)
def test_a_decided_batch_is_completed_or_lost(
    described: TransactionDescription | None, two_phase: bool, outcome: str
) -> None:
    left = roll_forward(record(two_phase=two_phase), {PART.slot: described})

    assert left.to_commit == ((PART,) if outcome == "commit" else ())
    assert left.lost == (() if outcome in ("commit", "done") else (PART,))
    assert left.outcome == ("" if outcome in ("commit", "done") else outcome)


def test_a_forgotten_id_of_a_batch_that_was_completed_is_not_lost() -> None:
    assert roll_forward(record(), {PART.slot: None}, was_completed=True).lost == ()
    assert roll_forward(record(), {PART.slot: description("CompleteAbort")}, was_completed=True).lost == (
        PART,
    )


def test_only_transactions_that_are_open_as_they_were_left_are_decided() -> None:
    parts = {PART: frozenset({HERE})}

    assert find_expired(parts, {PART.slot: description("Ongoing")}) == {}
    assert find_expired(parts, {PART.slot: description("Ongoing", partitions=frozenset({HERE, THERE}))}) == {}
    assert find_expired(parts, {PART.slot: None}) == {PART: "the coordinator does not know it"}
    assert find_expired(parts, {PART.slot: description("CompleteAbort")}) == {PART: "it is CompleteAbort"}
    assert find_expired(parts, {PART.slot: description("Ongoing", ProducerPair(10, 3))}) == {
        PART: "it is Ongoing"
    }
    # Ended and begun again under this pair: its rows are gone.
    assert find_expired(parts, {PART.slot: description("Ongoing", partitions=frozenset({THERE}))}) == {
        PART: "it is Ongoing"
    }


def test_slots_of_the_newest_record_keep_their_pairs() -> None:
    free, fenced = slots_to_prepare(
        incarnation=1,
        count=2,
        earlier_slots=[Slot(1, number) for number in range(5)],
        left_open=[Slot(9, 5), Slot(1, 100_003), Slot(1, 1)],
        record=record(slots=2),
    )

    assert free == [Slot(1, 2), Slot(1, 3)]
    # A task that held the fifth may still use it, though no batch needs it now.
    assert fenced == [Slot(1, 2), Slot(1, 3), Slot(1, 4), Slot(1, 100_003), Slot(9, 5)]


def test_names_of_ids_that_begin_alike_are_kept_apart() -> None:
    names = Names("a.b")
    others = ["a.b-1", "a.b-1-2-3", "a.b-x-2", "aXb-1-2", "a.b-1-2x", "a.b-c", "a.b-c-1-2", "a.b-1-22222222"]

    assert names.slots_among(["a.b-1-2", names.id_of_slot(Slot(63, 132_767)), *others]) == {
        Slot(1, 2),
        Slot(63, 132_767),
    }


def test_tickets_are_counted_until_epochs_run_out() -> None:
    assert tickets_between(ProducerPair(5, 10), ProducerPair(5, 11)) == 0
    assert tickets_between(ProducerPair(5, 10), ProducerPair(5, 14)) == 3
    assert tickets_between(ProducerPair(5, 10), ProducerPair(6, 0)) is None
    assert incarnation_of(ProducerPair(1, 2**15 - 2)) == INCARNATIONS - 2
    assert incarnation_of(ProducerPair(1, INCARNATIONS + 1)) == 1


def test_lost_transactions_are_reported_by_name() -> None:
    lost = str(TransactionsLost(7, ("T-1-0", "T-1-1"), "it is CompleteAbort"))
    again = str(BatchExpired(7, ("T-1-0",), "it is Empty"))

    assert "Batch 7 was decided" in lost and "T-1-0, T-1-1 (it is CompleteAbort)" in lost
    assert "Batch 7 was not written: T-1-0 ended before the decision" in again
