"""Acknowledgements in steps, where adjacent batches move at once, equal one batch after the other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.share_acknowledgements import joined_batches
from ottla.node.share import share_partition
from ottla.node.share.acknowledge_records import acknowledge_batch
from ottla.node.share.share_words import AcknowledgementBatch, Outcome, ShareConfig, ShareLimits
from tests.unit.node.share.partitions import ACCEPT, GAP, NOW_MS, REJECT, RELEASE, RENEW, Partition

RECORDS = 60
OFFSETS = st.integers(0, RECORDS + 2)
# 5 is an invalid type, which is rejected in any position.
TYPES = st.sampled_from([GAP, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, 5])
OUTCOMES = st.sampled_from([ACCEPT, RELEASE, REJECT])
TYPES_OF_REQUESTS = (GAP, ACCEPT, RELEASE, REJECT, RENEW)
HISTORY = st.lists(st.tuples(OFFSETS, st.integers(0, 5), OUTCOMES), max_size=4)


class _Batch(NamedTuple):
    """A batch of acknowledgements in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Patch the share-partition to handle each batch as a whole, without the fast path."""
    with (
        patch.object(share_partition, "pieces_of", lambda batch: [batch]),
        patch.object(share_partition, "acknowledge_piece", acknowledge_batch),
    ):
        yield


@st.composite
def batches_of(draw: st.DrawFn) -> list[AcknowledgementBatch]:
    """Draw batches as librdkafka sends them (one for each record), as Java sends them, or as none does."""
    batches: list[AcknowledgementBatch] = []
    first = draw(OFFSETS)
    kinds = draw(st.sampled_from([TYPES, OUTCOMES]))
    for _ in range(draw(st.integers(1, 40))):
        last = first + draw(st.sampled_from([0, 0, 0, 0, 1, 4, -1]))
        count = draw(st.sampled_from([last - first + 1] * 9 + [1, 2]))
        batches.append(AcknowledgementBatch(first, last, tuple(draw(kinds) for _ in range(max(count, 0)))))
        first = max(last, first) + draw(st.sampled_from([1] * 19 + [2]))
    return batches


@given(
    batch_records=st.sampled_from([7, 20, RECORDS]),
    by_others=st.sets(st.integers(0, 3), max_size=2),
    history=HISTORY,
    batches=batches_of(),
    limit=st.integers(1, 3),
)
def test_acknowledgements_in_steps_have_the_effect_of_one_after_the_other(
    batch_records: int,
    by_others: set[int],
    history: Sequence[tuple[int, int, int]],
    batches: list[AcknowledgementBatch],
    limit: int,
) -> None:
    def partition() -> Partition:
        log = [(first, min(first + batch_records, RECORDS) - 1) for first in range(0, RECORDS, batch_records)]
        made = Partition(log=log, config=ShareConfig(delivery_count_limit=limit))
        for place in range(len(log)):
            made.fetch("m2" if place in by_others else "m1")
        for first, more, kind in history:
            outcome = made.begin_acknowledge(first, first + more, kind)
            if outcome.transition is not None:
                made.complete_write(outcome)
        return made

    # As in the request handler, which rejects invalid requests.
    joined = joined_batches([_Batch(*one) for one in batches], max(TYPES_OF_REQUESTS), is_renew=True)
    one_by_one, in_steps = partition(), partition()
    for each in (one_by_one, in_steps):
        each.check()

    with without_fast_path():
        expected = one_by_one.core.acknowledge("m1", batches, NOW_MS)
    seen = _run(in_steps, batches if joined is None else joined)

    assert seen == expected if joined is None else _as_merged(seen) == _as_merged(expected)
    assert by_offset(in_steps) == by_offset(one_by_one)
    if expected.transition is not None:
        assert in_steps.complete_write(seen) == one_by_one.complete_write(expected)
        assert (by_offset(in_steps), in_steps.window) == (by_offset(one_by_one), one_by_one.window)


@given(batches=batches_of(), max_states=st.integers(1, 30))
def test_the_number_of_ranges_stays_within_the_limit(
    batches: list[AcknowledgementBatch], max_states: int
) -> None:
    partition = Partition(log=[(0, RECORDS - 1)], limits=ShareLimits(max_states=max_states))
    partition.fetch()

    _run(partition, batches)

    assert len(partition.states) <= max_states


def _as_merged(outcome: Outcome) -> Outcome:
    """Return the outcome without the differences of merged batches (`joined_batches`).

    Their message names other offsets, and if several records may not be acknowledged, the error may be that
    of another one.
    """
    error = ErrorCode.INVALID_REQUEST if outcome.error is ErrorCode.INVALID_RECORD_STATE else outcome.error
    return replace(outcome, error=error, message="")


def by_offset(partition: Partition) -> dict[int, tuple[int, int]]:
    """Return state and delivery count of each offset, independent of the ranges."""
    return {
        offset: (state, count)
        for first, last, state, count in partition.states
        for offset in range(first, last + 1)
    }


def _run(partition: Partition, batches: list[AcknowledgementBatch]) -> Outcome:
    steps = partition.core.acknowledge_in_steps("m1", batches, NOW_MS)
    try:
        while True:
            next(steps)
            partition.check()
    except StopIteration as end:
        partition.check()
        outcome: Outcome = end.value
        return outcome
