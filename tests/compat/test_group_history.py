"""The checks of a group's history find each break of the rules."""

from typing import Any

import pytest

from tests.compat.group_history import GroupHistory


def history_of(*lines: tuple[int, str, str, Any]) -> GroupHistory:
    """Return a history made of lines (at ms, member, event, more).

    `more` is the partitions, or for "polled" the generation and the values of partition t-0.
    """
    history = GroupHistory()
    for at, member, event, more in lines:
        report: dict[str, Any] = {"at": at, "member": member, "event": event}
        if event == "polled":
            generation, values = more
            report |= {"generation": generation, "records": [["t-0", 0, value] for value in values]}
        elif more is not None:
            report["partitions"] = more
        history.note(report)
    return history


STARTED = [(0, "a", "started", None), (0, "b", "started", None)]


def test_a_partition_that_is_handed_over_in_order_is_no_problem() -> None:
    history = history_of(
        *STARTED,
        (1, "a", "assigned", ["t-0"]),
        (2, "a", "polled", (1, ["x"])),
        (3, "a", "revoked", ["t-0"]),
        (3, "b", "assigned", ["t-0"]),
        (4, "b", "polled", (2, ["y"])),
        (5, "b", "closed", None),
    )

    history.wait_for_all(["x", "y"])
    history.check_exactly_once(["x", "y"])
    history.check_no_partition_was_owned_twice()
    history.check_no_partition_had_two_readers()
    assert history.closed == {"b"} and history.owned == {"a": set()}


def test_a_partition_with_two_owners_is_found() -> None:
    history = history_of(*STARTED, (1, "a", "assigned", ["t-0"]), (2, "b", "assigned", ["t-0"]))
    with pytest.raises(AssertionError):
        history.check_no_partition_was_owned_twice()

    history.note({"at": 3, "member": "a", "event": "revoked", "partitions": ["t-0"]})
    with pytest.raises(AssertionError):
        history.check_no_partition_was_owned_twice()


def test_a_killed_member_owns_nothing() -> None:
    history = history_of(*STARTED, (1, "a", "assigned", ["t-0"]))
    history.crashed(["a"])
    [killed] = history.ownerships
    assert killed.end_ms is not None

    history.note({"at": killed.end_ms, "member": "b", "event": "assigned", "partitions": ["t-0"]})
    history.check_no_partition_was_owned_twice()


def test_two_readers_of_a_generation_are_found_and_readers_without_one_do_not_count() -> None:
    history = history_of(*STARTED, (1, "a", "polled", (4, ["x"])), (2, "b", "polled", (-1, ["y"])))
    history.check_no_partition_had_two_readers()

    history.note({"at": 3, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "z"]]})
    with pytest.raises(AssertionError):
        history.check_no_partition_had_two_readers()


def test_a_generation_that_reuses_a_number_after_a_crash_is_another() -> None:
    history = history_of(*STARTED, (1, "a", "polled", (4, ["x"])))
    history.crashed(["a"])

    history.note({"at": 3, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "z"]]})
    history.check_no_partition_had_two_readers()


@pytest.mark.parametrize("event", ["lost", "revoked"])
def test_a_reader_that_gave_a_partition_up_in_time_is_of_the_generation_before(event: str) -> None:
    history = history_of(*STARTED, (1, "a", "assigned", ["t-0"]), (2, "a", "polled", (4, ["x"])))
    history.note({"at": 5, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 1, "y"]]})
    history.note({"at": 5, "member": "a", "event": event, "partitions": ["t-0"]})

    history.check_no_partition_had_two_readers()
    history.note({"at": 4, "member": "b", "event": "polled", "generation": 4, "records": [["t-0", 2, "z"]]})
    with pytest.raises(AssertionError):
        history.check_no_partition_had_two_readers()


def test_records_that_are_doubled_or_lost_are_found() -> None:
    history = history_of(*STARTED, (1, "a", "polled", (1, ["x", "x"])))

    with pytest.raises(AssertionError):
        history.check_exactly_once(["x"])
    with pytest.raises(AssertionError):
        history.check_exactly_once(["x", "y"])
    with pytest.raises(AssertionError, match="all of 2 records"):
        history.wait(lambda history: history.polled.keys() >= {"x", "y"}, "all of 2 records", seconds=0)


def test_a_member_that_fails_ends_every_wait() -> None:
    history = history_of(*STARTED)
    history.note({"at": 1, "member": "a", "event": "failed", "error": "it broke"})

    with pytest.raises(AssertionError, match="it broke"):
        history.wait_for_all(["x"])
