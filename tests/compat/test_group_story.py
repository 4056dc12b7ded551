"""The checks of a group's history find each break of the rules."""

from typing import Any

import pytest

from tests.compat.group_story import Story


def story_of(*lines: tuple[int, str, str, Any]) -> Story:
    """Return a history made of lines (at ms, member, event, more).

    `more` is the partitions, or for "polled" the generation and the values of partition t-0.
    """
    story = Story()
    for at, member, event, more in lines:
        told: dict[str, Any] = {"at": at, "member": member, "event": event}
        if event == "polled":
            generation, values = more
            told |= {"generation": generation, "records": [["t-0", 0, value] for value in values]}
        elif more is not None:
            told["partitions"] = more
        story.note(told)
    return story


STARTED = [(0, "a", "started", None), (0, "b", "started", None)]


def test_a_partition_that_is_handed_over_in_order_is_no_problem() -> None:
    story = story_of(
        *STARTED,
        (1, "a", "assigned", ["t-0"]),
        (2, "a", "polled", (1, ["x"])),
        (3, "a", "revoked", ["t-0"]),
        (3, "b", "assigned", ["t-0"]),
        (4, "b", "polled", (2, ["y"])),
        (5, "b", "closed", None),
    )

    story.wait_for_all(["x", "y"])
    story.check_exactly_once(["x", "y"])
    story.check_no_partition_was_owned_twice()
    story.check_no_partition_had_two_readers()
    assert story.closed == {"b"} and story.owned == {"a": set()}


def test_a_partition_with_two_owners_is_found() -> None:
    story = story_of(*STARTED, (1, "a", "assigned", ["t-0"]), (2, "b", "assigned", ["t-0"]))
    with pytest.raises(AssertionError):
        story.check_no_partition_was_owned_twice()

    story.note({"at": 3, "member": "a", "event": "revoked", "partitions": ["t-0"]})
    with pytest.raises(AssertionError):
        story.check_no_partition_was_owned_twice()


def test_a_killed_member_owns_nothing() -> None:
    story = story_of(*STARTED, (1, "a", "assigned", ["t-0"]))
    story.crashed(["a"])
    [killed] = story.ownerships
    assert killed.end_ms is not None

    story.note({"at": killed.end_ms, "member": "b", "event": "assigned", "partitions": ["t-0"]})
    story.check_no_partition_was_owned_twice()


def test_two_readers_of_a_generation_are_found_and_readers_without_one_do_not_count() -> None:
    story = story_of(*STARTED, (1, "a", "polled", (4, ["x"])), (2, "b", "polled", (-1, ["y"])))
    story.check_no_partition_had_two_readers()

    story.note({"at": 3, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "z"]]})
    with pytest.raises(AssertionError):
        story.check_no_partition_had_two_readers()


def test_a_generation_that_reuses_a_number_after_a_crash_is_another() -> None:
    story = story_of(*STARTED, (1, "a", "polled", (4, ["x"])))
    story.crashed(["a"])

    story.note({"at": 3, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "z"]]})
    story.check_no_partition_had_two_readers()


@pytest.mark.parametrize("told", ["lost", "revoked"])
def test_a_reader_that_gave_a_partition_up_in_time_is_of_the_generation_before(told: str) -> None:
    story = story_of(*STARTED, (1, "a", "assigned", ["t-0"]), (2, "a", "polled", (4, ["x"])))
    story.note({"at": 5, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "y"]]})
    story.note({"at": 5, "member": "a", "event": told, "partitions": ["t-0"]})

    story.check_no_partition_had_two_readers()
    story.note({"at": 4, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 2, "z"]]})
    with pytest.raises(AssertionError):
        story.check_no_partition_had_two_readers()


def test_records_that_are_doubled_or_lost_are_found() -> None:
    story = story_of(*STARTED, (1, "a", "polled", (1, ["x", "x"])))

    with pytest.raises(AssertionError):
        story.check_exactly_once(["x"])
    with pytest.raises(AssertionError):
        story.check_exactly_once(["x", "y"])
    with pytest.raises(AssertionError, match="all of 2 records"):
        story.wait(lambda told: told.polled.keys() >= {"x", "y"}, "all of 2 records", seconds=0)


def test_a_member_that_fails_ends_every_wait() -> None:
    story = story_of(*STARTED)
    story.note({"at": 1, "member": "a", "event": "failed", "error": "it broke"})

    with pytest.raises(AssertionError, match="it broke"):
        story.wait_for_all(["x"])
