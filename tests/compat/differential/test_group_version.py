"""The feature `group.version` turns consumer groups (KIP-848) off and on, as in Apache Kafka 4.3.1."""

import os
from functools import partial

import pytest

from tests.compat.servers import Server
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.slow, pytest.mark.java]
UPGRADE, SAFE_DOWNGRADE = 1, 2
UNSUPPORTED_VERSION = 35
GROUP = f"of-a-version-{os.urandom(3).hex()}"


@pytest.mark.parametrize("name", ["ottla", "reference"])
def test_without_the_feature_consumer_groups_are_an_unsupported_version(
    request: pytest.FixtureRequest, name: str
) -> None:
    server: Server = request.getfixturevalue(name)
    with WireClient(server.bootstrap) as client:
        send = partial(heartbeat, client)
        assert eventually(send, lambda code: code == 0) == 0
        try:
            set_level(client, 0, SAFE_DOWNGRADE)
            assert eventually(send, lambda code: code != 0) == UNSUPPORTED_VERSION
            described = client.call("consumer_group_describe", 1, group_ids=[GROUP])
            assert only(described.groups).error_code == UNSUPPORTED_VERSION
            response = client.call("api_versions", 4, client_software_name="x", client_software_version="1")
            assert "group.version" not in [one.name for one in response.finalized_features]
            assert (0, 1) in [
                (one.min_version, one.max_version)
                for one in response.supported_features
                if one.name == "group.version"
            ]
            listed = client.call("list_groups", 5, types_filter=["consumer"], states_filter=[])
            assert GROUP in [one.group_id for one in listed.groups]
        finally:
            set_level(client, 1, UPGRADE)
        # The group is still there, and so is its member.
        assert eventually(send, lambda code: code == 0) == 0


def set_level(client: WireClient, level: int, kind: int) -> None:
    update = {"feature": "group.version", "max_version_level": level, "upgrade_type": kind}
    answer = client.call("update_features", 2, timeout_ms=5000, feature_updates=[update], validate_only=False)
    assert answer.error_code == 0, answer


def heartbeat(client: WireClient) -> int:
    """Join the group with its only member, for the first time or again, and return the error code."""
    client.call("find_coordinator", 4, key_type=0, coordinator_keys=[GROUP])
    answer = client.call(
        "consumer_group_heartbeat",
        1,
        group_id=GROUP,
        member_id="only",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=["no-topic"],
        topic_partitions=[],
    )
    return int(answer.error_code)
