"""A share-partition against a simple model, and against the promises of share groups, in random sessions."""

import pytest

from tests.property.share_model import ShareModel
from tests.property.share_sessions import Session
from tests.thorough import some_of

KINDS = {
    "plain": {},
    "gaps": {"has_gaps": True},
    "compacted": {"is_compacted": True},
    "aborted": {"has_aborted": True},
    "deleted": {"is_deleted": True},
    "all": {"has_gaps": True, "is_compacted": True, "has_aborted": True, "is_deleted": True},
}
# Features that the simple model lacks.
MORE_KINDS = {
    "waits": {"has_waits": True},
    "failovers": {"has_failovers": True},
    "dead letters": {"has_dead_letters": True, "has_failovers": True, "is_deleted": True},
    "all and more": {**KINDS["all"], "has_waits": True, "has_failovers": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", some_of(range(0, 80, 20), of_each_run=1))
def test_a_share_partition_answers_as_the_simple_model(kind: str, first: int) -> None:
    for seed in range(first, first + 20):
        session = Session(seed, **KINDS[kind])
        session.play(60)

        model = ShareModel()
        for number, (line, ours) in enumerate(zip(session.lines, session.answers, strict=True)):
            assert model.answer(line) == ours, f"seed {seed}, step {number}: {line}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *MORE_KINDS])
@pytest.mark.parametrize("first", some_of(range(1_000, 1_080, 20), of_each_run=1))
def test_the_promises_of_share_groups_hold(kind: str, first: int) -> None:
    for seed in range(first, first + 20):
        session = Session(seed, **{**KINDS, **MORE_KINDS}[kind])
        session.play(80)
        session.drain()
