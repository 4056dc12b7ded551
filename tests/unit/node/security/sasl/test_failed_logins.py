"""The limits of the passwords that are tried from one address."""

import logging

import pytest

from ottla.node.security.sasl.failed_logins import (
    BURST,
    MAX_ADDRESSES,
    MAX_DELAY_S,
    PER_SECOND,
    FailedLogins,
)


def test_the_first_failures_wait_for_nothing_and_later_ones_longer_and_longer() -> None:
    failures = FailedLogins()

    assert [failures.note("a", 0.0) for _ in range(BURST)] == [0.0] * BURST
    assert [failures.note("a", 0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert failures.note("b", 0.0) == 0.0, "others are not held up"


def test_who_has_too_many_waiting_is_refused_until_it_calms_down() -> None:
    failures = FailedLogins()
    for _ in range(BURST + int(PER_SECOND * MAX_DELAY_S) - 1):
        failures.note("a", 0.0)

    assert not failures.is_refused("a", 0.0)
    assert failures.note("a", 0.0) == MAX_DELAY_S
    assert failures.is_refused("a", 0.0) and not failures.is_refused("b", 0.0)
    assert not failures.is_refused("a", 0.2)
    assert failures.note("a", 1_000.0) == 0.0


def test_one_line_with_a_count_tells_of_it_and_not_a_second_soon(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailedLogins()

    with caplog.at_level(logging.WARNING):
        for _ in range(BURST + 50):
            failures.note("10.0.0.1", 0.0)

    (line,) = caplog.messages
    assert line.startswith(f"{BURST + 1} logins from 10.0.0.1 have failed")


def test_addresses_without_end_are_not_remembered() -> None:
    failures = FailedLogins()
    for number in range(MAX_ADDRESSES + 10):
        failures.note(str(number), 0.0)

    assert len(failures) == MAX_ADDRESSES


def test_a_host_that_has_a_whole_network_of_ipv6_is_one() -> None:
    failures = FailedLogins()
    for number in range(BURST + int(PER_SECOND * MAX_DELAY_S)):
        failures.note(f"2001:db8::{number:x}", 0.0)

    assert failures.is_refused("2001:db8::ffff:1", 0.0)
    assert failures.is_refused("2001:db8::/64", 0.0), "as the REST API names it"
    assert not failures.is_refused("2001:db8:0:1::1", 0.0)
    assert len(failures) == 1
