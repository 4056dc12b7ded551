"""The reasons for which a connection could not be made, in words."""

import errno
import ssl

import pytest

from ottla.logstore.words.dial_errors import dial_problem, is_refused, tls_problem

REFUSED, NO_ROUTE = (
    f"[Errno {number}] Connect call failed ('10.0.0.1', 9093)"
    for number in (errno.ECONNREFUSED, errno.EHOSTUNREACH)
)


@pytest.mark.parametrize(
    ("error", "problem"),
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
def test_the_reason_is_given_in_words_for_any_error_of_the_event_loop(error: OSError, problem: str) -> None:
    assert dial_problem(error) == problem
    assert is_refused(error) == (problem == "connection refused")


@pytest.mark.parametrize(
    ("reason", "verify_message", "problem"),
    [
        (
            "CERTIFICATE_VERIFY_FAILED",
            "certificate has expired",
            "the certificate of the other end was rejected: certificate has expired",
        ),
        (
            "SSLV3_ALERT_CERTIFICATE_EXPIRED",
            None,
            "the other end rejected this node's certificate: certificate expired",
        ),
        ("TLSV1_ALERT_UNKNOWN_CA", None, "the other end rejected this node's certificate: unknown ca"),
        ("TLSV1_ALERT_INTERNAL_ERROR", None, "the other end ended TLS: internal error"),
        ("WRONG_VERSION_NUMBER", None, "the TLS handshake failed: wrong version number"),
    ],
)
def test_tls_errors_say_which_end_rejected_a_certificate(
    reason: str, verify_message: str | None, problem: str
) -> None:
    error = ssl.SSLCertVerificationError() if verify_message else ssl.SSLError()
    error.reason, error.library = reason, "SSL"
    if verify_message:
        error.verify_message = verify_message  # type: ignore[union-attr]

    assert tls_problem(error) == dial_problem(error) == problem
    assert tls_problem(None) == tls_problem(TimeoutError()) == ""
