"""`kafka-share-groups`, `kafka-groups` and `kafka-configs` with share groups, at a node and at Kafka."""

from uuid import uuid4

import pytest

from tests.compat.conftest import create_topic
from tests.compat.java.kafka_tools import KafkaTools
from tests.compat.java.test_kafka_tools import Shell
from tests.compat.wire_client import WireClient, eventually, only

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def shell(bootstrap: str, tools: KafkaTools) -> Shell:
    return Shell(tools, bootstrap)


@pytest.fixture
def group(client: WireClient, topic: str) -> str:
    """Return a share group that had a member, and has a start offset in the only partition of the topic."""
    name = f"workers-{uuid4().hex[:8]}"
    eventually(
        lambda: only(client.call("find_coordinator", 4, key_type=0, coordinator_keys=[name]).coordinators),
        lambda found: found.error_code == 0,
    )
    member = {"group_id": name, "member_id": "m"}
    joined = eventually(
        lambda: client.call(
            "share_group_heartbeat", 1, **member, member_epoch=0, subscribed_topic_names=[topic]
        ),
        lambda found: found.error_code == 0,
    )
    assert joined.error_code == 0, joined
    requests = [{"group_id": name, "topics": None}]
    described = eventually(
        lambda: only(client.call("describe_share_group_offsets", 1, groups=requests).groups),
        lambda found: bool(found.topics),
    )
    assert described.topics, described
    assert client.call("share_group_heartbeat", 1, **member, member_epoch=-1).error_code == 0
    return name


@pytest.fixture
def topic(client: WireClient) -> str:
    return create_topic(client, partitions=1)


def test_kafka_share_groups_lists_describes_resets_and_deletes_a_group(
    shell: Shell, topic: str, group: str
) -> None:
    of_group = ("--group", group)

    assert group in shell.ok("kafka-share-groups", "--list").split()
    (row,) = [line.split() for line in shell.ok("kafka-groups", "--list").splitlines() if group in line]
    assert row[1:] == ["Share", "share"]
    assert "Empty" in shell.ok("kafka-share-groups", "--describe", *of_group, "--state")
    reset = shell.ok(
        "kafka-share-groups", "--reset-offsets", *of_group, "--topic", topic, "--to-earliest", "--execute"
    )
    assert [line.split()[1:] for line in reset.splitlines() if topic in line] == [[topic, "0", "0"]]
    described = shell.ok("kafka-share-groups", "--describe", *of_group)
    (starts,) = [line.split() for line in described.splitlines() if topic in line]
    assert starts[1:4] == [topic, "0", "0"], described
    assert topic in shell.ok("kafka-share-groups", "--delete-offsets", *of_group, "--topic", topic)
    assert topic not in shell.ok("kafka-share-groups", "--describe", *of_group)
    shell.ok("kafka-share-groups", "--delete", *of_group)
    assert group not in shell.ok("kafka-share-groups", "--list").split()


def test_kafka_configs_changes_configs_of_a_share_group(shell: Shell) -> None:
    of_group = ("--entity-type", "groups", "--entity-name", f"workers-{uuid4().hex[:8]}")
    lock = "share.record.lock.duration.ms"

    shell.ok(
        "kafka-configs",
        "--alter",
        *of_group,
        "--add-config",
        f"{lock}=45000,share.auto.offset.reset=earliest",
    )

    described = eventually(
        lambda: shell.ok("kafka-configs", "--describe", *of_group), lambda text: f"{lock}=45000" in text
    )
    assert f"{lock}=45000" in described and "share.auto.offset.reset=earliest" in described
    wrong = shell.run("kafka-configs", "--alter", *of_group, "--add-config", f"{lock}=70000")
    assert f"{lock} must be less than or equal to group.share.max.record.lock.duration.ms" in wrong.text
    shell.ok("kafka-configs", "--alter", *of_group, "--delete-config", f"{lock},share.auto.offset.reset")
