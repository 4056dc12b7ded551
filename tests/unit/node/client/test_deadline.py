"""A deadline is one value: the last request gets the time that the others left."""

from ottla.node.client.deadline import LEAST_S, Deadline


class FakeClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_remaining_time_shrinks_and_is_never_zero() -> None:
    now = FakeClock()
    deadline = Deadline.after(5, now)

    assert deadline.remaining_s == 5 and not deadline.is_over
    now.seconds += 4
    assert deadline.remaining_s == 1 and deadline.allows(0.5) and not deadline.allows(1)
    now.seconds += 9
    assert deadline.remaining_s == LEAST_S and deadline.is_over


def test_a_part_never_ends_later_than_the_whole() -> None:
    now = FakeClock()
    deadline = Deadline.after(5, now)

    assert deadline.within(2).remaining_s == 2
    assert deadline.within(60).at_s == deadline.at_s
    assert deadline.within(2).given_s == 5


def test_a_step_without_an_answer_leaves_the_others_their_share() -> None:
    now = FakeClock()
    deadline = Deadline.after(6, now)

    first = deadline.share(3)
    now.seconds += 2
    second = deadline.share(2)
    now.seconds += 0.5
    third = deadline.share(1)

    assert (first.at_s, second.at_s, third.at_s) == (102, 104, 106)
