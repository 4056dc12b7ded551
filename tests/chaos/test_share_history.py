"""The checker must find each violation, or the chaos tests prove nothing."""

import pytest

from tests.chaos.share_history import ACCEPT, REJECT, RELEASE, Delivery, Place, ShareHistory

LIMIT = 3
HERE = Place(0, 7)


def delivery(
    count: int, not_before_s: float, acknowledgement: str | None = ACCEPT, confirmed_s: float | None = None
) -> Delivery:
    return Delivery(
        place=HERE,
        member="m",
        count=count,
        not_before_s=not_before_s,
        acknowledgement=acknowledgement,
        confirmed_s=confirmed_s,
    )


def problems(*deliveries: Delivery) -> list[str]:
    history = ShareHistory(LIMIT)
    for one in deliveries:
        history.add(one)
    return history.problems([HERE])


@pytest.mark.parametrize(
    "deliveries",
    [
        [delivery(1, 1, ACCEPT, 2)],
        [delivery(1, 1, RELEASE, 2), delivery(2, 3, REJECT, 4)],
        [delivery(1, 1, None), delivery(2, 9, ACCEPT, 10)],  # the member crashed
        [delivery(1, 1, ACCEPT, None)],  # the response was lost: the record may be finished
        # The leader failed before it wrote the state.
        [delivery(1, 1, ACCEPT, None), delivery(1, 5, ACCEPT, 6)],
        # Likewise, and the first member still held the record.
        [delivery(1, 5, ACCEPT, 6), delivery(1, 1, None)],
        [delivery(3, 1, None)],  # archived
    ],
)
def test_a_clean_run_has_no_problems(deliveries: list[Delivery]) -> None:
    assert problems(*deliveries) == []


@pytest.mark.parametrize(
    ("deliveries", "kind"),
    [
        ([], "lost"),
        ([delivery(1, 1, None)], "lost"),
        ([delivery(1, 1, RELEASE, 2)], "lost"),
        ([delivery(1, 1, RELEASE, None)], "lost"),
        ([delivery(4, 1, ACCEPT, 2)], "limit"),
        ([delivery(0, 1, ACCEPT, 2)], "limit"),
        ([delivery(1, 1, ACCEPT, 2), delivery(1, 1, ACCEPT, 2)], "finished twice"),
        ([delivery(1, 1, ACCEPT, 2), delivery(2, 1, None)], "delivered after it was finished"),
        ([delivery(1, 1, REJECT, 2), delivery(1, 3, None)], "delivered after it was finished"),
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
        (delivery(1, 1, REJECT, 2), 1),
        (delivery(1, 1, REJECT, None), 0),  # the response was lost: the record may be rejected
        (delivery(1, 1, REJECT, None), 1),
        (delivery(1, 1, ACCEPT, 2), 0),
        (delivery(3, 1, None), 1),
        (delivery(3, 1, None), 0),
    ],
)
def test_letters_of_a_clean_run_have_no_problems(delivery: Delivery, letters: int) -> None:
    assert letter_problems(delivery, letters=letters) == []


@pytest.mark.parametrize(
    ("delivery", "letters", "kind"),
    [
        (delivery(1, 1, REJECT, 2), 0, "letter lost"),
        (delivery(1, 1, REJECT, 2), 2, "letter twice"),
        (delivery(1, 1, ACCEPT, 2), 1, "letter of an accepted record"),
        (delivery(2, 1, RELEASE, 2), 1, "letter without a reason"),
    ],
)
def test_a_violation_of_each_rule_of_letters_is_found(delivery: Delivery, letters: int, kind: str) -> None:
    assert any(one.startswith(kind) for one in letter_problems(delivery, letters=letters))
