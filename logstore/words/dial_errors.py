"""Descriptions of the reason for which a connection could not be made.

The event loop's own message is "[Errno 113] Connect call failed ('10.0.0.1', 9093)", which does not say what
the number means. For a name with several addresses it is "Multiple exceptions: ...", without an errno.
"""

import errno
import os
import re
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno ([0-9]{1,4})\] Connect call failed")


def is_refused(error: Exception) -> bool:
    """Return True if the machine was reached, but none of its processes listens on the port."""
    return isinstance(error, ConnectionRefusedError) or errno.ECONNREFUSED in _numbers(error)


def dial_problem(error: Exception) -> str:
    """Return the reason in words, or "" if the error gives none."""
    tls = tls_problem(error)
    if tls:
        return tls
    if is_refused(error):
        return "connection refused"
    for number in _numbers(error):
        return os.strerror(number)
    return getattr(error, "strerror", None) or str(error)


def tls_problem(error: BaseException | None) -> str:
    """Return a TLS error in words, without OpenSSL's numbers and source lines; "" for other errors."""
    # An error of `ssl` is recognised by its attributes, so that a caller without TLS need not load OpenSSL.
    reason = getattr(error, "reason", None)
    if not isinstance(reason, str) or not hasattr(error, "library"):
        return ""
    verify_message = getattr(error, "verify_message", None)
    if verify_message:
        return f"the certificate of the other end was rejected: {str(verify_message).rstrip('.')}"
    _, is_alert, alert = reason.partition("_ALERT_")
    if not is_alert:
        return f"the TLS handshake failed: {reason.lower().replace('_', ' ')}"
    words = alert.lower().replace("_", " ")
    if "certificate" in words or words == "unknown ca":
        return f"the other end rejected this node's certificate: {words}"
    return f"the other end ended TLS: {words}"


def _numbers(error: Exception) -> list[int]:
    """Return the errno of each failed attempt, which asyncio only puts into the text of its error."""
    return [int(found) for found in _NUMBER.findall(str(error))] if isinstance(error, OSError) else []
