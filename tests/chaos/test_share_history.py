"""The checker must find each violation, or the chaos tests prove nothing."""

import pytest

from tests.chaos.share_history import ACCEPT, REJECT, RELEASE, Delivery, Place, ShareHistory

LIMIT = 3
HERE = Place(0, 7)


def given(count: int, since_s: float, said: str | None = ACCEPT, done_s: float | None = None) -> Delivery:
    return Delivery(place=HERE, member="m", count=count, since_s=since_s, said=said, done_s=done_s)


def problems(*deliveries: Delivery) -> list[str]:
    history = ShareHistory(LIMIT)
    for one in deliveries:
        history.add(one)
    return history.problems([HERE])


@pytest.mark.parametrize(
    "deliveries",
    [
        [given(1, 1, ACCEPT, 2)],
        [given(1, 1, RELEASE, 2), given(2, 3, REJECT, 4)],
        [given(1, 1, None), given(2, 9, ACCEPT, 10)],  # the member crashed
        [given(1, 1, ACCEPT, None)],  # the response was lost: the record may be finished
        [given(1, 1, ACCEPT, None), given(1, 5, ACCEPT, 6)],  # the leader failed before it wrote the state
        [given(1, 5, ACCEPT, 6), given(1, 1, None)],  # likewise, and the first member still held the record
        [given(3, 1, None)],  # archived
    ],
)
def test_a_clean_run_has_no_problems(deliveries: list[Delivery]) -> None:
    assert problems(*deliveries) == []


@pytest.mark.parametrize(
    ("deliveries", "kind"),
    [
        ([], "lost"),
        ([given(1, 1, None)], "lost"),
        ([given(1, 1, RELEASE, 2)], "lost"),
        ([given(1, 1, RELEASE, None)], "lost"),
        ([given(4, 1, ACCEPT, 2)], "limit"),
        ([given(0, 1, ACCEPT, 2)], "limit"),
        ([given(1, 1, ACCEPT, 2), given(1, 1, ACCEPT, 2)], "done twice"),
        ([given(1, 1, ACCEPT, 2), given(2, 1, None)], "given after it was done"),
        ([given(1, 1, REJECT, 2), given(1, 3, None)], "given after it was done"),
    ],
)
def test_a_violation_of_each_rule_is_found(deliveries: list[Delivery], kind: str) -> None:
    assert any(one.startswith(kind) for one in problems(*deliveries)), problems(*deliveries)


def letter_problems(*deliveries: Delivery, letters: int) -> list[str]:
    history = ShareHistory(LIMIT)
    for one in deliveries:
        history.add(one)
    return history.letter_problems([HERE] * letters)


@pytest.mark.parametrize(
    ("delivery", "letters"),
    [
        (given(1, 1, REJECT, 2), 1),
        (given(1, 1, REJECT, None), 0),  # the response was lost: the record may be rejected
        (given(1, 1, REJECT, None), 1),
        (given(1, 1, ACCEPT, 2), 0),
        (given(3, 1, None), 1),
        (given(3, 1, None), 0),
    ],
)
def test_letters_of_a_clean_run_have_no_problems(delivery: Delivery, letters: int) -> None:
    assert letter_problems(delivery, letters=letters) == []


@pytest.mark.parametrize(
    ("delivery", "letters", "kind"),
    [
        (given(1, 1, REJECT, 2), 0, "letter lost"),
        (given(1, 1, REJECT, 2), 2, "letter twice"),
        (given(1, 1, ACCEPT, 2), 1, "letter of what was accepted"),
        (given(2, 1, RELEASE, 2), 1, "letter without a reason"),
    ],
)
def test_a_violation_of_each_rule_of_letters_is_found(delivery: Delivery, letters: int, kind: str) -> None:
    assert any(one.startswith(kind) for one in letter_problems(delivery, letters=letters))
