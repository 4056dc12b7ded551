"""Requests about very many records of a share-partition are carried out in steps."""

from collections.abc import Callable, Generator

import pytest

from ottla.groupcoord.share_state.share_state_words import StateBatch
from ottla.logstore.words.errors import ErrorCode
from ottla.node.share import acquire_records
from ottla.node.share.share_words import NOTHING_TO_WRITE, AcknowledgementBatch, Outcome
from tests.unit.node.share.partitions import ACCEPT, NOW_MS, REJECT, RELEASE, Partition


def test_very_many_acknowledgements_in_steps_have_the_same_result_as_at_once() -> None:
    types = tuple((int(ACCEPT), int(RELEASE), int(REJECT))[offset % 3] for offset in range(200))
    at_once, in_steps = (Partition(log=[(0, 199), (200, 299)]) for _ in range(2))
    for one in (at_once, in_steps):
        one.fetch(up_to=200)

    outcome = at_once.begin_acknowledge(0, 199, *types)
    steps = in_steps.core.acknowledge_in_steps("m1", [AcknowledgementBatch(0, 199, types)], NOW_MS)
    seen = _run(steps, in_steps.check)

    assert seen == outcome
    assert in_steps.states == at_once.states
    at_once.complete_write(outcome)
    in_steps.complete_write(seen)
    assert (in_steps.states, in_steps.window) == (at_once.states, at_once.window)


def test_acknowledgements_in_steps_are_all_taken_back_if_one_is_rejected() -> None:
    partition = Partition(log=[(0, 199)])
    partition.fetch()
    partition.acknowledge(150, 150, int(ACCEPT))
    before = partition.states

    steps = partition.core.acknowledge_in_steps("m1", [AcknowledgementBatch(0, 199, (1,) * 200)], NOW_MS)
    outcome = _run(steps, partition.check)

    assert outcome.error is ErrorCode.INVALID_RECORD_STATE
    assert partition.states == before


def test_a_member_that_leaves_between_steps_keeps_no_records() -> None:
    partition = Partition(log=[(0, 199)])
    partition.fetch()
    steps = partition.core.acknowledge_in_steps("m1", [AcknowledgementBatch(0, 199, (1,) * 200)], NOW_MS)
    next(steps)

    partition.complete_write(partition.core.release_all("m1"))
    outcome = _run(steps, partition.check)

    assert outcome.error is ErrorCode.INVALID_RECORD_STATE
    released = partition.core.release_all("m1")
    assert released.write is not None, "what was taken back is released when it leaves again"
    partition.complete_write(released)
    assert {state for _, _, state, _ in partition.states} == {0}


def test_a_member_that_acquired_nothing_leaves_without_a_search_of_the_records() -> None:
    partition = Partition(log=[(0, 199)])
    partition.fetch("m1")

    assert partition.core.release_all("m2") is NOTHING_TO_WRITE
    assert partition.core.release_all("m1").write is not None


def test_one_fetch_acquires_a_limited_number_of_ranges_and_the_next_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acquire_records, "MAX_ACQUIRED_RANGES", 3)
    states = [StateBatch(offset, offset, 0, 1 + offset % 2) for offset in range(10)]
    partition = Partition(log=[(0, 19)], batches=states)

    given = [partition.fetch() for _ in range(4)]

    assert [len(one) for one in given] == [3, 3, 3, 2]
    assert [one[0][0] for one in given] == [0, 3, 6, 9]


def _run(steps: Generator[None, None, Outcome], check: Callable[[], None]) -> Outcome:
    try:
        while True:
            next(steps)
            check()
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
