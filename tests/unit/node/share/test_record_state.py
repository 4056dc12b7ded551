"""The table of a record's moves: exactly the moves that it allows are made."""

import pytest

from ottla.node.share.in_flight_records import InFlightRecords
from ottla.node.share.record_state import MOVES, TAKEN_BACK_TO, TERMINAL, RecordState
from tests.property.share_sessions import Session

_S = RecordState


def test_the_table_has_all_states_and_terminal_ones_have_no_moves() -> None:
    assert MOVES.keys() == set(RecordState)
    assert {state for state, following in MOVES.items() if not following} == TERMINAL
    assert all(old not in following for old, following in MOVES.items())


@pytest.mark.slow
def test_random_sessions_make_every_move_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    move, begin, take_back = InFlightRecords.move, InFlightRecords.begin_transition, InFlightRecords.take_back

    def moved(records: InFlightRecords, index: int, state: int, holder: str | None, time_ms: int) -> None:
        seen.add((_S(records.states[index]), _S(state)))
        move(records, index, state, holder, time_ms)

    def begun(records: InFlightRecords, index: int, state: int, number: int) -> None:
        seen.add((_S(records.states[index]), _S(state)))
        begin(records, index, state, number)

    taken_back = set()

    def back(records: InFlightRecords, index: int, state: int) -> None:
        taken_back.add(_S(state))
        take_back(records, index, state)

    monkeypatch.setattr(InFlightRecords, "move", moved)
    monkeypatch.setattr(InFlightRecords, "begin_transition", begun)
    monkeypatch.setattr(InFlightRecords, "take_back", back)
    for seed in range(60):
        Session(seed, has_waits=True, is_deleted=True, has_aborted=True).play(60)
        Session(seed, has_dead_letters=True, is_deleted=True).play(60)

    assert seen == {(old, new) for old, following in MOVES.items() for new in following}
    assert taken_back and taken_back <= TAKEN_BACK_TO


@pytest.mark.parametrize("old", RecordState)
@pytest.mark.parametrize("new", RecordState)
def test_no_other_move_is_made(old: RecordState, new: RecordState) -> None:
    records = InFlightRecords()
    records.add(0, 9, state=old, count=1)

    if new in MOVES[old]:
        records.move(0, new, None, 0)
        assert records.states[0] == new
    else:
        with pytest.raises(AssertionError):
            records.move(0, new, None, 0)
