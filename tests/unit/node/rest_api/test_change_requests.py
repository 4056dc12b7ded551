"""The requests over REST that the audit log records as changes."""

import pytest

from ottla.node.rest_api.change_requests import is_audited

TOPIC = "/v3/clusters/{cluster_id}/topics/{topic_name}"


@pytest.mark.parametrize(
    ("method", "path", "status", "is_logged"),
    [
        ("POST", "/v3/clusters/{cluster_id}/topics", 201, True),
        ("DELETE", TOPIC, 500, True),
        ("DELETE", TOPIC, 404, False),
        ("POST", "/v3/clusters/{cluster_id}/topics", 400, False),
        ("POST", "/v3/clusters/{cluster_id}/topics", 421, False),
        ("POST", "/v3/clusters/{cluster_id}/topics", 429, False),
        ("PUT", f"{TOPIC}/configs/{{name}}", 204, True),
        ("POST", "/v1/groups/{group_id}/dead-letters/deliver", 200, True),
        ("POST", "/v1/groups/{group_id}/dead-letters/deliver", 404, False),
        ("GET", TOPIC, 200, False),
        ("HEAD", TOPIC, 200, False),
        ("POST", f"{TOPIC}/records", 200, False),
        ("POST", f"{TOPIC}/records:batch", 200, False),
        ("DELETE", TOPIC, 401, False),
        ("DELETE", TOPIC, 403, False),
        ("DELETE", "", 404, False),
    ],
)
def test_changes_are_logged_and_records_and_refusals_are_not(
    method: str, path: str, status: int, is_logged: bool
) -> None:
    assert is_audited(method, path, status) is is_logged
