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
    if is_refused(error):
        return "connection refused"
    for number in _numbers(error):
        return os.strerror(number)
    return getattr(error, "strerror", None) or str(error)


def _numbers(error: Exception) -> list[int]:
    """Return the system's numbers of what the event loop tells of in words of its own."""
    return [int(found) for found in _NUMBER.findall(str(error))] if isinstance(error, OSError) else []
