"""Why a connection could not be made, in words."""

import errno

import pytest

from ottla.logstore.words.dial_errors import dial_problem, is_refused

REFUSED, NO_ROUTE = (
    f"[Errno {number}] Connect call failed ('10.0.0.1', 9093)"
    for number in (errno.ECONNREFUSED, errno.EHOSTUNREACH)
)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, REFUSED.partition("] ")[2]), "connection refused"),
        (ConnectionRefusedError("Connection refused"), "connection refused"),
        (OSError(f"Multiple exceptions: {NO_ROUTE}, {REFUSED}"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, NO_ROUTE.partition("] ")[2]), "No route to host"),
        (OSError(f"Multiple exceptions: {NO_ROUTE}, {NO_ROUTE}"), "No route to host"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "Network is unreachable"),
        (TimeoutError(), ""),
    ],
)
def test_the_reason_is_told_in_words_whatever_the_event_loop_makes_of_it(error: OSError, told: str) -> None:
    assert dial_problem(error) == told
    assert is_refused(error) == (told == "connection refused")
