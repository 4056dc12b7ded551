"""`ottla`'s own commands for quorums, brokers and replicas, against a node and against Apache Kafka."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.command_line import ottla
from tests.compat.servers import Server
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(params=["ottla", pytest.param("reference", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def run(server: Server, *arguments: str, code: int = 0) -> str:
    return ottla(server.bootstrap, *arguments, code=code)


def test_the_quorum_and_the_brokers_are_shown(server: Server) -> None:
    quorum = json.loads(run(server, "quorum", "status", "--output", "json"))
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))

    assert [one["node"] for one in quorum["voters"]] == [quorum["leader"]] == [broker["broker"]]
    assert quorum["voters"][0]["log_end_offset"] >= quorum["high_watermark"] - 1 > 0
    assert broker["state"] == "active" and server.bootstrap.endswith(f":{broker['port']}")
    assert run(server, "quorum", "status").startswith(f"leader {quorum['leader']}  epoch ")


def test_partitions_are_reassigned_and_leaders_elected(server: Server) -> None:
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))
    alone, topic = str(broker["broker"]), f"ottla-{uuid4().hex[:8]}"
    run(server, "topic", "create", topic, "--partitions", "2")

    assert run(server, "topic", "reassign", topic, "-r", alone) == "".join(
        f"{topic}-{number} is on {alone}\n" for number in (0, 1)
    )
    assert "INVALID_REPLICA_ASSIGNMENT" in run(server, "topic", "reassign", topic, "-r", "77", code=1)
    assert run(server, "topic", "elect", topic).count(f"was already led by {alone}") == 2
    assert run(server, "topic", "reassign", topic, "--output", "json") == "[]\n"
    run(server, "topic", "delete", topic)


def test_the_only_node_cannot_be_removed(server: Server) -> None:
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))
    alone = str(broker["broker"])

    assert f"`ottla quorum remove {alone}`" in run(server, "broker", "decommission", alone, code=1)
    assert "already a voter" in run(server, "quorum", "add", alone, code=1)
    assert run(server, "quorum", "remove", alone, code=1).startswith("ottla: ")


def test_groups_are_described_measured_reset_and_deleted(server: Server) -> None:
    topic, group = f"ottla-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    run(server, "topic", "create", topic)
    ottla(server.bootstrap, "produce", topic, given="a\nb\nc\n")
    run(server, "consume", topic, "--group", group, "-n", "1")

    [listed] = [one for one in group_output(server, "list", "--state", "empty") if one["group"] == group]
    [described] = group_output(server, "describe", group)
    [lag] = group_output(server, "lag", group)
    run(server, "group", "reset", group, "--to-earliest", "--all-topics", "--execute")
    [after] = group_output(server, "lag", group)

    assert (listed["type"], listed["protocol_type"]) == ("classic", "consumer")
    assert (described["state"], described["members"]) == ("Empty", [])
    assert lag["lag"] == 2 and 0 < lag["seconds"] < 60
    assert after["lag"] == 3 and after["seconds"] > lag["seconds"]
    assert run(server, "group", "delete-offsets", group, "--topic", topic).endswith(f" from {group}\n")
    assert run(server, "group", "delete", group) == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in run(server, "group", "lag", group, code=1)
    run(server, "topic", "delete", topic)


def test_every_group_command_works_with_a_consumer_group(server: Server) -> None:
    topic, group = f"ottla-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    run(server, "topic", "create", topic, "--partitions", "2")
    with reading(server, group, topic) as member_id:
        eventually(
            lambda: group_output(server, "describe", group)[0]["state"] == "Stable", "it is stable", 60
        )
        [listed] = [
            one for one in group_output(server, "list", "--type", "consumer") if one["group"] == group
        ]
        [described] = group_output(server, "describe", group)
        [member] = group_output(server, "members", group)
        shown = run(server, "group", "members", group, "--verbose").splitlines()[1].split()
        rejected = [
            run(server, "group", *words, code=1)
            for words in (
                ["delete", group],
                ["delete-offsets", group, "--topic", f"{topic}:0"],
                ["reset", group, "--to-earliest", "--topic", topic, "--execute"],
            )
        ]
        [lag] = group_output(server, "lag", group)

    both = [{"topic": topic, "partition": number} for number in (0, 1)]
    assert (listed["state"], listed["protocol_type"]) == ("Stable", "consumer")
    assert group not in [one["group"] for one in group_output(server, "list", "--type", "classic")]
    assert (described["type"], described["assignor"]) == ("consumer", "uniform")
    assert described["epoch"] == described["target_epoch"] == member["epoch"] > 0
    assert (member["member"], member["protocol"], member["topics"]) == (member_id, "consumer", [topic])
    assert member["partitions"] == member["target"] == both
    assert shown[-4:] == ["consumer", str(member["epoch"]), f"{topic}:0,1", f"{topic}:0,1"]
    assert "NON_EMPTY_GROUP" in rejected[0] and "GROUP_SUBSCRIBED_TO_TOPIC" in rejected[1]
    assert f"Group {group} is active (Stable)" in rejected[2] and "reader at 127.0.0.1" in rejected[2]
    assert [(one["committed"], one["lag"], one["seconds"]) for one in lag["partitions"]] == [
        (0, 0, 0),
        (0, 0, 0),
    ]

    # The member has left.
    assert group in [
        one["group"] for one in group_output(server, "list", "--type", "consumer", "--state", "empty")
    ]
    run(server, "group", "reset", group, "--to-latest", "--topic", topic, "--execute")
    deleted = run(server, "group", "delete-offsets", group, "--topic", f"{topic}:0")
    assert deleted == f"deleted the offset of {topic}-0 from {group}\n"
    assert [one["partition"] for one in group_output(server, "lag", group)[0]["partitions"]] == [1]
    assert run(server, "group", "delete", group) == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in run(server, "group", "describe", group, code=1)
    run(server, "topic", "delete", topic)


@contextmanager
def reading(server: Server, group: str, topic: str) -> Iterator[str]:
    """Run a member of the consumer protocol that has committed, and give its id."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer = Consumer({**settings, "client.id": "reader", "enable.auto.commit": False})
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "it has both", 60)
        consumer.commit(offsets=[TopicPartition(topic, number, 0) for number in (0, 1)], asynchronous=False)
        yield consumer.memberid()
    finally:
        consumer.close()


def group_output(server: Server, *arguments: str) -> list[dict[str, Any]]:
    """Return the JSON output of a command of `ottla group`."""
    listed: list[dict[str, Any]] = json.loads(run(server, "group", *arguments, "--output", "json"))
    return listed
