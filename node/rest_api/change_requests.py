"""The requests by which clients of the REST API change the cluster, as the audit log tells them.

What was answered with a status of the 400s has changed nothing, and anybody could ask for it without end:
told as changes, such requests would leave the lines of real ones out.
"""

from typing import Final

from ottla.node.rest_api.request_guard import SAFE_METHODS

_RECORDS: Final = "/records"  # what is written there is no change of the cluster
_SESSIONS: Final = "/console/"  # nor is a login
_NOTHING_DONE: Final = range(400, 500)  # of these, 401 and 403 are told as failed logins and as refusals


def is_told_change(method: str, path: str, status: int) -> bool:
    """Return whether the audit log tells a request to this path of the table, answered with this status."""
    return (
        bool(path)
        and method not in SAFE_METHODS
        and not path.startswith(_SESSIONS)
        and not path.endswith((_RECORDS, f"{_RECORDS}:batch"))
        and status not in _NOTHING_DONE
    )
