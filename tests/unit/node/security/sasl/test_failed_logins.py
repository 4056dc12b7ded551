"""The passwords that can be tried from one address are limited."""

import logging

import pytest

from ottla.node.security.sasl.failed_logins import (
    MAX_ADDRESSES,
    MAX_DELAY_S,
    FailedLogins,
    FailureAllowance,
)
from ottla.node.settings.failed_login_settings import DEFAULT_BURST as BURST
from ottla.node.settings.failed_login_settings import DEFAULT_RATE as PER_SECOND
from ottla.node.settings.failed_login_settings import parse_exempt


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
    assert "raise ottla.failed.logins.burst and ottla.failed.logins.rate, or name it in" in line


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


def exhausted(failures: FailedLogins, address: str, attempts: int = 2_000) -> int:
    """Fail logins of an address until they are rejected; return the number of failures answered at once."""
    at_once = 0
    for _ in range(attempts):
        if failures.is_refused(address, 0.0):
            return at_once
        at_once += failures.note(address, 0.0) == 0.0
    return -1


def test_burst_and_rate_are_those_that_are_set_also_while_somebody_waits() -> None:
    failures = FailedLogins(FailureAllowance(burst=3, per_second=2))
    assert exhausted(failures, "10.0.0.1") == 3
    assert not failures.is_refused("10.0.0.1", 0.5), "one more in half a second"

    failures.limit(FailureAllowance(burst=500, per_second=100))
    assert exhausted(failures, "10.0.0.2") == 500
    assert not failures.is_refused("10.0.0.1", 0.5)
    assert failures.note("10.0.0.1", 1.0) == 0.0, "who waited has the new rate, too"

    failures.limit(FailureAllowance(burst=5_000, per_second=100))
    assert failures.note("10.0.0.2", 0.0) == 0.0, "an address that has failed has what the burst has grown by"

    failures.limit(FailureAllowance(burst=1, per_second=1))
    assert failures.note("10.0.0.1", 1_000.0) == 0.0 and failures.note("10.0.0.1", 1_000.0) == 1.0


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("10.1.0.0/16", "10.1.200.3"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "::ffff:10.0.0.7"),
        ("2001:db8::1", "2001:db8::2"),  # the same host may have both
        ("2001:db8::/32", "2001:db8:7::1"),
        ("2001:db8::1", "2001:db8::/64"),  # the REST API uses this form
    ],
)
def test_who_is_exempt_is_never_counted_and_others_are(entry: str, address: str) -> None:
    failures = FailedLogins(FailureAllowance(exempt=parse_exempt([entry])))

    assert exhausted(failures, address, 300) == -1 and len(failures) == 0
    for other in ("10.0.0.8", "2001:dba::1", "no address"):
        assert exhausted(failures, other) == BURST


def test_who_was_refused_is_let_in_when_it_is_exempt_from_now_on() -> None:
    failures = FailedLogins()
    exhausted(failures, "10.0.0.1")

    failures.limit(FailureAllowance(exempt=parse_exempt(["10.0.0.1"])))

    assert not failures.is_refused("10.0.0.1", 0.0)
