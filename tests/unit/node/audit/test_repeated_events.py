"""Floods of events, and the few lines that they cost."""

from collections.abc import Callable
from itertools import count

import pytest

from ottla.node.audit.audit_event import AccessDecision, Change, FailedLogin, Kind
from ottla.node.audit.audit_log import LIMITS as LIMITS_OF_A_NODE
from ottla.node.audit.repeated_events import (
    MAX_LEFT_OUT_SOURCES,
    SEVERAL,
    WINDOW_MS,
    EventLine,
    LeftOutLine,
    Limits,
    RepeatedEvents,
    Source,
)
from ottla.node.net.connection_info import network_of

LIMITS = Limits(per_source=3, total=10)


def refusal(topic: str = "orders", address: str = "10.0.0.1") -> AccessDecision:
    return AccessDecision("User:bob", address, "Produce", "WRITE", "Topic", topic, "DefaultDeny")


@pytest.fixture
def window() -> RepeatedEvents:
    return RepeatedEvents(Kind.DENIED, LIMITS)


def test_the_first_is_logged_at_once_and_all_others_when_the_window_ends(window: RepeatedEvents) -> None:
    lines = [window.add(refusal(), 1_000 + ms) for ms in range(5_000)]

    assert lines == [EventLine(refusal(), 1, 1_000, 1_000)] + [None] * 4_999
    assert not window.has_ended(1_000 + WINDOW_MS - 1) and window.has_ended(1_000 + WINDOW_MS)
    window.check_invariants()
    assert window.end() == [EventLine(refusal(), 4_999, 1_001, 5_999)]
    assert window.end() == [] and window.ends_ms is None
    window.check_invariants()


def test_an_event_that_came_once_is_logged_once(window: RepeatedEvents) -> None:
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
def test_events_that_differ_in_anything_are_lines_of_their_own(
    window: RepeatedEvents, other: AccessDecision
) -> None:
    window.add(refusal(), 0)

    assert window.add(other, 1) == EventLine(other, 1, 1, 1)


def test_a_principal_at_an_address_has_a_limited_number_of_lines_and_leaves_the_rest_to_others(
    window: RepeatedEvents,
) -> None:
    lines = [window.add(refusal(f"t{number}"), number) for number in range(1_000)]

    assert sum(line is not None for line in lines) == LIMITS.per_source
    assert window.add(refusal(address="10.0.0.2"), 1_000) is not None
    assert window.add(refusal()._replace(principal="User:ann"), 1_000) is not None
    window.check_invariants()
    assert window.end() == [LeftOutLine(Kind.DENIED, Source("User:bob", "10.0.0.1"), 997, 1_000)]


def test_all_sources_together_have_a_limited_number_of_lines(window: RepeatedEvents) -> None:
    logged = [window.add(refusal()._replace(principal=f"User:{number}"), 0) for number in range(500)]
    lines = window.end()

    assert sum(line is not None for line in logged) == LIMITS.total
    assert len(lines) == MAX_LEFT_OUT_SOURCES + 1
    assert sum(line.events for line in lines) == 500 - LIMITS.total
    assert [line.source for line in lines if isinstance(line, LeftOutLine)][-1] == SEVERAL


def change(number: int, principal: str = "User:mallory", address: str = "10.0.0.1") -> Change:
    return Change(principal, address, "AlterConfigs", "Topic", f"t{number}", "", "NONE")


@pytest.mark.parametrize(
    "hostile",
    [
        lambda number: change(number, address=f"10.0.0.{number % 2}"),
        lambda number: change(number, address=f"10.{number % 100}.0.1"),
        lambda number: change(number, principal=f"User:{number % 20}"),
        lambda number: change(number, "User:ANONYMOUS", f"10.0.0.{number % 2}"),
    ],
    ids=["two addresses", "many addresses", "many principals at one address", "unauthenticated"],
)
def test_a_flood_of_changes_leaves_room_for_the_lines_of_others(hostile: Callable[[int], Change]) -> None:
    window = RepeatedEvents(Kind.CHANGE, LIMITS_OF_A_NODE[Kind.CHANGE])
    for number in range(20_000):
        window.add(hostile(number), number)
    lines = [window.add(change(number, "User:admin", "192.168.0.1"), 20_000 + number) for number in range(20)]

    assert None not in lines
    window.check_invariants()
    left_out = [line.source for line in window.end() if isinstance(line, LeftOutLine)]
    assert left_out and all(source.address.startswith("10.") for source in left_out)


def test_a_principal_does_not_push_out_its_own_lines_of_another_address() -> None:
    window = RepeatedEvents(Kind.CHANGE, LIMITS_OF_A_NODE[Kind.CHANGE])
    for number in range(20_000):
        window.add(change(number), number)

    assert None not in [window.add(change(number, address="10.0.0.2"), 20_000) for number in range(100)]


def test_failed_logins_of_many_users_share_the_bounds_of_their_address() -> None:
    window = RepeatedEvents(Kind.FAILED_LOGIN, LIMITS)
    lines = [window.add(FailedLogin(f"user-{one}", "10.0.0.1", "X", "PLAIN", "wrong"), 0) for one in range(9)]

    assert sum(line is not None for line in lines) == LIMITS.per_source
    assert window.end() == [LeftOutLine(Kind.FAILED_LOGIN, Source("", "10.0.0.1"), 6, 0)]


def test_a_host_with_a_network_of_addresses_is_one_source() -> None:
    window = RepeatedEvents(Kind.DENIED, LIMITS, network_of)
    lines = [window.add(refusal(address=f"2001:db8::{one:x}"), 0) for one in range(9)]

    assert sum(line is not None for line in lines) == LIMITS.per_source
    assert window.end() == [LeftOutLine(Kind.DENIED, Source("User:bob", "2001:db8::/64"), 6, 0)]


def test_no_event_is_lost_from_the_counts(window: RepeatedEvents) -> None:
    names = count()
    lines = [
        window.add(refusal(f"t{next(names) % 7}", f"10.0.0.{number % 4}"), number) for number in range(999)
    ]
    window.check_invariants()

    assert sum(line.events for line in (*filter(None, lines), *window.end())) == 999


def test_a_clock_that_is_set_back_ends_the_window(window: RepeatedEvents) -> None:
    window.add(refusal(), 1_000_000)

    assert not window.has_ended(1_000_000) and window.has_ended(999_999)
