"""The moves between the states of a classic group: every pair of states, legal or not."""

import ast
from pathlib import Path

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.group_state import MOVES, RECORDED, GroupState

GROUPCOORD = Path(__file__).parents[4] / "groupcoord"
E, P, C, S, D = GroupState
LEGAL = {(E, P), (E, D), (P, C), (P, E), (P, D), (C, S), (C, P), (C, D), (S, P), (S, D)}


def test_the_table_is_kafkas() -> None:
    assert {(before, after) for before, states in MOVES.items() for after in states} == LEGAL


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_a_group_moves_only_as_the_table_says(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = before

    if (before, after) in LEGAL:
        group.move_to(after, 5)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (after, before, 5)
    else:
        with pytest.raises(AssertionError):
            group.move_to(after, 5)


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("recorded", GroupState)
def test_replay_gives_a_group_only_states_that_records_have(before: GroupState, recorded: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = before

    if recorded in (E, S):
        group.restore(recorded, 5)
        assert (group.state, group.state_timestamp_ms) == (recorded, 5)
    else:
        with pytest.raises(AssertionError):
            group.restore(recorded, 5)
    assert set(RECORDED) == {E, S}


@pytest.mark.parametrize("before", GroupState)
def test_a_dead_group_makes_no_more_moves(before: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = before

    if before is D:
        with pytest.raises(AssertionError):
            group.forget()
    else:
        group.forget()
        assert group.state is D


def test_only_the_group_itself_sets_its_state() -> None:
    found = {
        str(path.relative_to(GROUPCOORD))
        for path in GROUPCOORD.rglob("*.py")
        for entry in ast.walk(ast.parse(path.read_text()))
        if isinstance(entry, ast.Attribute) and entry.attr == "state" and isinstance(entry.ctx, ast.Store)
    }

    assert found == {"classic/classic_group.py"}
