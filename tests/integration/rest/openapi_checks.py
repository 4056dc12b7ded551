"""Checks that schemathesis runs in addition to its own, in test_openapi.py."""

import schemathesis
from schemathesis import Case, CheckContext, Response

# A busy machine may do nothing within this time; with more time, a 503 would be the node's fault.
SHORT_TIMEOUT_MS = 2_000


@schemathesis.check
def only_requests_with_a_short_timeout_get_503(_: CheckContext, response: Response, case: Case) -> None:
    if response.status_code != 503:
        return
    given = str((case.query or {}).get("timeout_ms", ""))
    assert given.isdecimal() and int(given) <= SHORT_TIMEOUT_MS, f"503 to a request with timeout_ms={given!r}"
