"""The requests by which clients of the REST API change the cluster, as the audit log tells them."""

from typing import Final

from ottla.node.rest_api.request_guard import SAFE_METHODS

_RECORDS: Final = "/records"  # what is written there is no change of the cluster
_SESSIONS: Final = "/console/"  # nor is a login
_REFUSALS: Final = frozenset({401, 403})  # told as failed logins and as refusals


def is_told_change(method: str, path: str, status: int) -> bool:
    """Return whether the audit log tells a request to this path of the table, answered with this status."""
    return (
        bool(path)
        and method not in SAFE_METHODS
        and not path.startswith(_SESSIONS)
        and not path.endswith((_RECORDS, f"{_RECORDS}:batch"))
        and status not in _REFUSALS
    )
