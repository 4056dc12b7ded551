"""The topics that coordinators create for themselves have the same settings as in Apache Kafka 4.3.1."""

from typing import Any

import pytest

from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
TOPIC, OF_THE_TOPIC = 2, 1
GROUPS, TRANSACTIONS, SHARES = 0, 1, 2
FIRST_KEYS = {GROUPS: "first", TRANSACTIONS: "first", SHARES: "first:AAAAAAAAAAAAAAAAAAAAAQ:0"}


@pytest.mark.parametrize(
    ("name", "key_type", "differs"),
    [
        ("__consumer_offsets", GROUPS, set[str]()),
        # The reference has one node, and a setting that one replica is enough.
        ("__transaction_state", TRANSACTIONS, {"min.insync.replicas"}),
        ("__share_group_state", SHARES, set[str]()),
    ],
)
def test_the_topic_of_a_coordinator_has_the_same_settings(
    ottla: Server, reference: Server, name: str, key_type: int, differs: set[str]
) -> None:
    ours, theirs = (settings(server, name, key_type) for server in (ottla, reference))

    assert ours.keys() == theirs.keys()
    assert {key for key in ours if ours[key] != theirs[key]} <= differs


def settings(server: Server, name: str, key_type: int) -> dict[str, Any]:
    """Return the topic's own settings, after FindCoordinator for a first key has created it."""
    with WireClient(server.bootstrap) as client:
        eventually(
            lambda: client.call(
                "find_coordinator", 6, key_type=key_type, coordinator_keys=[FIRST_KEYS[key_type]]
            ),
            lambda answer: only(answer.coordinators).error_code == 0,
            60,
        )
        resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
        answer = client.call("describe_configs", 4, resources=[resource])
        return {
            one.name: one.value for one in only(answer.results).configs if one.config_source == OF_THE_TOPIC
        }
