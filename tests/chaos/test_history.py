"""The checker must find each violation, or the chaos tests prove nothing."""

import pytest

from tests.chaos.history import History, Stamp

LOG = [(0, number, Stamp(7, 0, number)) for number in range(5)]


def a_history() -> History:
    return History(
        acknowledged=[(stamp, offset) for _, offset, stamp in LOG[:3]], read=[LOG[0], LOG[1], LOG[3]]
    )


def test_a_clean_run_has_no_problems() -> None:
    assert a_history().problems(LOG) == []


def test_an_unacknowledged_record_may_be_missing() -> None:
    assert a_history().problems(LOG[:4]) == []


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (LOG[:2], "lost"),
        ([*LOG, (0, 5, Stamp(7, 0, 2))], "twice"),
        ([*LOG[:4], (0, 4, Stamp(7, 0, 5))], "gap"),
        ([LOG[1], LOG[0], *LOG[2:], (0, 5, Stamp(7, 0, 0))], "twice"),
        ([(0, 0, Stamp(7, 0, 1)), (0, 1, Stamp(7, 0, 0)), *LOG[2:]], "order"),
        ([*LOG[:3], (0, 3, Stamp(7, 0, 4))], "changed"),
        ([*LOG, (1, 0, Stamp(7, 0, 5))], "strayed"),
    ],
)
def test_a_violation_of_each_rule_is_found(log: list[tuple[int, int, Stamp]], kind: str) -> None:
    problems = a_history().problems(log)

    assert any(problem.startswith(kind) for problem in problems), problems


def test_an_acknowledgement_names_the_offset() -> None:
    history = History(acknowledged=[(Stamp(7, 0, 1), 2)])

    assert history.problems(LOG) == [
        "lost: Stamp(writer=7, partition=0, number=1) was acknowledged at 2,"
        " where Stamp(writer=7, partition=0, number=2) is"
    ]


def test_an_acknowledgement_without_an_offset_still_requires_the_record() -> None:
    history = History(acknowledged=[(Stamp(7, 0, 1), None), (Stamp(7, 0, 9), None)])

    assert history.problems(LOG) == [
        "lost: Stamp(writer=7, partition=0, number=9) was acknowledged and is nowhere"
    ]
