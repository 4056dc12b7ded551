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


def test_the_first_failures_are_not_delayed_and_later_ones_more_and_more() -> None:
    failures = FailedLogins()

    assert [failures.note("a", 0.0) for _ in range(BURST)] == [0.0] * BURST
    assert [failures.note("a", 0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert failures.note("b", 0.0) == 0.0, "others are not held up"


def test_an_address_with_too_many_delayed_failures_is_rejected_until_they_slow_down() -> None:
    failures = FailedLogins()
    for _ in range(BURST + int(PER_SECOND * MAX_DELAY_S) - 1):
        failures.note("a", 0.0)

    assert not failures.is_refused("a", 0.0)
    assert failures.note("a", 0.0) == MAX_DELAY_S
    assert failures.is_refused("a", 0.0) and not failures.is_refused("b", 0.0)
    assert not failures.is_refused("a", 0.2)
    assert failures.note("a", 1_000.0) == 0.0


def test_one_line_has_the_count_and_no_second_one_follows_soon(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailedLogins()

    with caplog.at_level(logging.WARNING):
        for _ in range(BURST + 50):
            failures.note("10.0.0.1", 0.0)

    (line,) = caplog.messages
    assert line.startswith(f"{BURST + 1} logins from 10.0.0.1 have failed")
    assert "raise ottla.failed.logins.burst and ottla.failed.logins.rate, or add it to" in line


def test_a_limited_number_of_addresses_is_remembered() -> None:
    failures = FailedLogins()
    for number in range(MAX_ADDRESSES + 10):
        failures.note(str(number), 0.0)

    assert len(failures) == MAX_ADDRESSES


def test_a_network_of_ipv6_counts_as_one_address() -> None:
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


def test_changed_bursts_and_rates_apply_also_while_failures_are_delayed() -> None:
    failures = FailedLogins(FailureAllowance(burst=3, per_second=2))
    assert exhausted(failures, "10.0.0.1") == 3
    assert not failures.is_refused("10.0.0.1", 0.5), "one more in half a second"

    failures.limit(FailureAllowance(burst=500, per_second=100))
    assert exhausted(failures, "10.0.0.2") == 500
    assert not failures.is_refused("10.0.0.1", 0.5)
    assert failures.note("10.0.0.1", 1.0) == 0.0, "an address with delayed failures has the new rate, too"

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
def test_exempt_addresses_are_not_counted_and_others_are(entry: str, address: str) -> None:
    failures = FailedLogins(FailureAllowance(exempt=parse_exempt([entry])))

    assert exhausted(failures, address, 300) == -1 and len(failures) == 0
    for other in ("10.0.0.8", "2001:dba::1", "no address"):
        assert exhausted(failures, other) == BURST


def test_a_rejected_address_is_accepted_once_it_is_exempt() -> None:
    failures = FailedLogins()
    exhausted(failures, "10.0.0.1")

    failures.limit(FailureAllowance(exempt=parse_exempt(["10.0.0.1"])))

    assert not failures.is_refused("10.0.0.1", 0.0)
