"""Floods of events, and the few lines that they cost."""

from itertools import count

import pytest

from ottla.node.audit.alike_events import (
    MAX_LEFT_OUT_ADDRESSES,
    WINDOW_MS,
    AlikeEvents,
    EventLine,
    LeftOutLine,
    Limits,
)
from ottla.node.audit.audit_event import Judged, Kind

LIMITS = Limits(per_address=3, total=5)


def refusal(topic: str = "orders", address: str = "10.0.0.1") -> Judged:
    return Judged("User:bob", address, "Produce", "WRITE", "Topic", topic, "DefaultDeny")


@pytest.fixture
def window() -> AlikeEvents:
    return AlikeEvents(Kind.DENIED, LIMITS)


def test_the_first_is_told_at_once_and_all_others_when_the_window_ends(window: AlikeEvents) -> None:
    lines = [window.add(refusal(), 1_000 + ms) for ms in range(5_000)]

    assert lines == [EventLine(refusal(), 1, 1_000, 1_000)] + [None] * 4_999
    assert not window.has_ended(1_000 + WINDOW_MS - 1) and window.has_ended(1_000 + WINDOW_MS)
    window.check_invariants()
    assert window.end() == [EventLine(refusal(), 4_999, 1_001, 5_999)]
    assert window.end() == [] and window.ends_ms is None
    window.check_invariants()


def test_what_came_once_is_told_once(window: AlikeEvents) -> None:
    assert window.add(refusal(), 0) is not None and window.end() == []


@pytest.mark.parametrize(
    "other",
    [
        refusal()._replace(principal="User:ann"),
        refusal()._replace(address="10.0.0.2"),
        refusal()._replace(api="Fetch"),
        refusal()._replace(operation="READ"),
        refusal()._replace(resource_type="Group"),
        refusal()._replace(resource_name="payments"),
        refusal()._replace(rule="NotLoaded"),
    ],
)
def test_events_that_differ_in_anything_are_lines_of_their_own(window: AlikeEvents, other: Judged) -> None:
    window.add(refusal(), 0)

    assert window.add(other, 1) == EventLine(other, 1, 1, 1)


def test_an_address_has_so_many_lines_and_leaves_the_rest_to_others(window: AlikeEvents) -> None:
    told = [window.add(refusal(f"t{number}"), number) for number in range(1_000)]

    assert sum(line is not None for line in told) == LIMITS.per_address
    assert window.add(refusal(address="10.0.0.2"), 1_000) is not None
    window.check_invariants()
    assert window.end() == [LeftOutLine(Kind.DENIED, "10.0.0.1", 997, 1_000)]


def test_all_addresses_together_have_so_many_lines(window: AlikeEvents) -> None:
    told = [window.add(refusal(address=f"10.0.{number // 250}.{number % 250}"), 0) for number in range(500)]
    lines = window.end()

    assert sum(line is not None for line in told) == LIMITS.total
    assert len(lines) == MAX_LEFT_OUT_ADDRESSES + 1
    assert sum(line.events for line in lines) == 500 - LIMITS.total
    assert [line.address for line in lines if isinstance(line, LeftOutLine)][-1] == ""


def test_no_event_is_lost_from_the_counts(window: AlikeEvents) -> None:
    names = count()
    lines = [
        window.add(refusal(f"t{next(names) % 7}", f"10.0.0.{number % 4}"), number) for number in range(999)
    ]
    window.check_invariants()

    assert sum(line.events for line in (*filter(None, lines), *window.end())) == 999


def test_a_clock_that_is_set_back_ends_the_window(window: AlikeEvents) -> None:
    window.add(refusal(), 1_000_000)

    assert not window.has_ended(1_000_000) and window.has_ended(999_999)
