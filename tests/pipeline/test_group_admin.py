"""Groups listed and described: with members of both protocols, without members, and nonexistent ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_admin import ListedGroup, describe_groups, has_members, list_groups
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import TIMEOUT_S, fill, make_topic

pytestmark = pytest.mark.slow


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Run a consumer that has read a row, so it is a member."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        # The very first group does not find its coordinator at once, which is reported as a message, too.
        while (message := consumer.poll(TIMEOUT_S)) is None or message.error() is not None:
            pass
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_has_members_until_they_leave(bootstrap: str, client: MakeClient, protocol: str) -> None:
    topic, group, cluster = make_topic(bootstrap), f"g-{uuid4().hex}", client()
    fill(bootstrap, topic, [b"v"])

    with member(bootstrap, group, topic, protocol):
        listed = list_groups(cluster)[group]
        described = describe_groups(cluster, [group])[group]
        assert has_members(cluster, listed)
        assert listed.is_of_consumers
        assert described.members_count == 1

    left = list_groups(cluster)[group]
    assert not has_members(cluster, left)
    assert describe_groups(cluster, [group])[group].members_count == 0


def test_a_group_of_offsets_alone_is_one_of_consumers(bootstrap: str, client: MakeClient) -> None:
    topic, group, cluster = make_topic(bootstrap), f"g-{uuid4().hex}", client()

    commit_offsets(cluster, group, {TopicPartition(topic, 0): CommittedOffset(offset=0)})

    listed = list_groups(cluster)[group]
    assert (listed.state, listed.protocol_type) == ("Empty", "")
    assert listed.is_of_consumers


def test_a_nonexistent_group_is_dead(client: MakeClient) -> None:
    cluster, group = client(), f"g-{uuid4().hex}"

    assert group not in list_groups(cluster)
    assert describe_groups(cluster, [group])[group].state == "Dead"
    assert not has_members(cluster, None)


@pytest.mark.parametrize(
    ("protocol_type", "group_type", "is_of_consumers"),
    [
        ("consumer", "Classic", True),
        ("consumer", "Consumer", True),
        ("consumer", "", True),  # from nodes before version 5
        ("", "classic", True),
        ("connect", "classic", False),
        ("share", "Share", False),
    ],
)
def test_only_consumers_have_offsets_to_follow(
    protocol_type: str, group_type: str, is_of_consumers: bool
) -> None:
    group = ListedGroup(group_id="g", protocol_type=protocol_type, state="Empty", group_type=group_type)

    assert group.is_of_consumers is is_of_consumers


def test_the_coordinator_is_asked_if_the_list_has_no_states(bootstrap: str, client: MakeClient) -> None:
    topic, group, cluster = make_topic(bootstrap), f"g-{uuid4().hex}", client()
    fill(bootstrap, topic, [b"v"])
    of_old_nodes = ListedGroup(group_id=group, protocol_type="consumer", state="", group_type="")

    assert not has_members(cluster, of_old_nodes)
    with member(bootstrap, group, topic, "classic"):
        assert has_members(cluster, of_old_nodes)
