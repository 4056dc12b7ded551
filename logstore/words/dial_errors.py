"""Why a connection could not be made, in words.

The event loop's own are "[Errno 113] Connect call failed ('10.0.0.1', 9093)", whatever the number means, or
for a name with several addresses "Multiple exceptions: ..." without a number of its own.
"""

import errno
import os
import re
from typing import Final

_NUMBER: Final = re.compile(r"\[Errno ([0-9]{1,4})\] Connect call failed")


def is_refused(error: Exception) -> bool:
    """Return whether a machine is there and none of its processes listens."""
    return isinstance(error, ConnectionRefusedError) or errno.ECONNREFUSED in _numbers(error)


def dial_problem(error: Exception) -> str:
    """Return the reason, or "" if none is known."""
    said = tls_problem(error)
    if said:
        return said
    if is_refused(error):
        return "connection refused"
    for number in _numbers(error):
        return os.strerror(number)
    return getattr(error, "strerror", None) or str(error)


def tls_problem(error: BaseException | None) -> str:
    """Return what an error of TLS says, without OpenSSL's numbers and places; "" for other errors."""
    # Errors of `ssl`, known by what they have: whoever only wants words need not load OpenSSL.
    reason = getattr(error, "reason", None)
    if not isinstance(reason, str) or not hasattr(error, "library"):
        return ""
    verify_message = getattr(error, "verify_message", None)
    if verify_message:
        return f"the certificate of the other end is refused: {str(verify_message).rstrip('.')}"
    _, is_alert, alert = reason.partition("_ALERT_")
    if not is_alert:
        return f"the TLS handshake failed: {reason.lower().replace('_', ' ')}"
    words = alert.lower().replace("_", " ")
    if "certificate" in words or words == "unknown ca":
        return f"the other end refuses this node's certificate: {words}"
    return f"the other end ended TLS: {words}"


def _numbers(error: Exception) -> list[int]:
    """Return the system's numbers of what the event loop tells of in words of its own."""
    return [int(found) for found in _NUMBER.findall(str(error))] if isinstance(error, OSError) else []
