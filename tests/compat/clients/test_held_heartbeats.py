"""Heartbeats whose responses the coordinator holds until the group changes: of librdkafka, and raw ones."""

import json
import time
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from tests.compat.wire_client import WireClient, only

WAIT_S = 60.0
JOIN_AGAIN = 27
GROUP = 32  # the type of a resource


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"held-{uuid4().hex[:8]}"
    with WireClient(bootstrap) as client:
        wanted = {"name": name, "num_partitions": 3, "replication_factor": 1}
        assert only(client.call("create_topics", 7, topics=[wanted], timeout_ms=5000).topics).error_code == 0
    return name


class Member:
    """A member that uses librdkafka, and its statistics about the connection to the coordinator."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self.longest_ms, self.timeouts = 0.0, 0
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "statistics.interval.ms": 200,
            "stats_cb": self._note,
            "fetch.wait.max.ms": 50,
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 600
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic])

    def _note(self, text: str) -> None:
        for name, broker in json.loads(text)["brokers"].items():
            if name.startswith("GroupCoordinator"):
                self.longest_ms = max(self.longest_ms, broker["rtt"]["max"] / 1000)
                self.timeouts = broker["req_timeouts"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_heartbeats_of_librdkafka_wait_and_none_is_missed(bootstrap: str, topic: str, protocol: str) -> None:
    group = f"group-{uuid4().hex[:8]}"
    # librdkafka waits for a response no longer than this interval, which is short on the tests' servers.
    _set_interval_ms(bootstrap, group, 5_000)
    members = [Member(bootstrap, group, topic, protocol) for _ in range(2)]

    def poll_until(shares: list[int], *, waited_ms: float = 0) -> bool:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for member in members:
                member.consumer.poll(0.05)
            owned = sorted(len(member.consumer.assignment()) for member in members)
            if owned == shares and all(member.longest_ms >= waited_ms for member in members):
                return True
        return False

    assert poll_until([1, 2], waited_ms=200)
    members.append(Member(bootstrap, group, topic, protocol))
    assert poll_until([1, 1, 1])
    gone = members.pop()
    gone.consumer.close()
    assert poll_until([1, 2])
    for member in members:
        member.consumer.close()

    # If the coordinator held responses for too long, all of them would time out.
    assert max(member.timeouts for member in (*members, gone)) <= 1


def _set_interval_ms(bootstrap: str, group: str, interval_ms: int) -> None:
    config = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": str(interval_ms)}
    wanted = {"resource_type": GROUP, "resource_name": group, "configs": [config]}
    with WireClient(bootstrap) as client:
        answer = client.call("incremental_alter_configs", 1, resources=[wanted], validate_only=False)
        assert only(answer.responses).error_code == 0


@pytest.mark.slow
def test_a_named_clients_heartbeat_waits_until_another_member_joins(bootstrap: str) -> None:
    """A heartbeat that waits when another member joins is answered with REBALANCE_IN_PROGRESS.

    If it was answered before the other member joined, the test is repeated with a new group.
    """
    group = f"group-{uuid4().hex[:8]}"
    for _ in range(5):
        with WireClient(bootstrap) as member, WireClient(bootstrap) as other:
            if _heartbeat_error(group, member, other) == JOIN_AGAIN:
                return
            group = f"group-{uuid4().hex[:8]}"
    pytest.fail("no heartbeat waited")


def _heartbeat_error(group: str, member: WireClient, other: WireClient) -> int:
    member.call("api_versions", 3, client_software_name="test", client_software_version="1")
    joined = member.receive("join_group", 3, _send_join(member, group))
    identity = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    mine = [{"member_id": joined.member_id, "assignment": b""}]
    assert member.call("sync_group", 2, **identity, assignments=mine).error_code == 0
    for _ in range(2):  # after these the coordinator knows the interval of the member's heartbeats
        assert member.call("heartbeat", 2, **identity).error_code == 0
        time.sleep(1.5)

    heartbeat = member.send("heartbeat", 2, **identity)
    _send_join(other, group)

    return int(member.receive("heartbeat", 2, heartbeat).error_code)


def _send_join(client: WireClient, group: str) -> int:
    return client.send(
        "join_group",
        3,
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="test",
        protocols=[{"name": "any", "metadata": b""}],
    )
