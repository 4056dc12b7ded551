"""The table of moves, whole."""

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.group_state import MOVES, GroupState

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
