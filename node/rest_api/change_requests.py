"""The requests to the REST API that the audit log records as changes of the cluster.

A request answered with a 4xx status has changed nothing as a rule, and any client can send it without end: in
the audit log, such requests would crowd out the lines of real changes. If a part of a batch was rejected, the
broker that made the other changes has recorded each of them.
"""

from typing import Final

from ottla.node.rest_api.request_guard import SAFE_METHODS

_RECORDS: Final = "/records"  # writing records does not change the cluster
_SESSIONS: Final = "/console/"  # nor does a login
_NOTHING_DONE: Final = range(400, 500)  # the audit log has 401 and 403 as failed logins and refusals


def is_audited(method: str, path: str, status: int) -> bool:
    """Return True if the audit log records a request to this path of the table with this status."""
    return (
        bool(path)
        and method not in SAFE_METHODS
        and not path.startswith(_SESSIONS)
        and not path.endswith((_RECORDS, f"{_RECORDS}:batch"))
        and status not in _NOTHING_DONE
    )
