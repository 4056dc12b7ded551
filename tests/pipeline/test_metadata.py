"""Topics, leaders, offsets and groups of a cluster of three nodes, as the pipeline's client sees them."""

import re
import time
from contextlib import closing
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.pipeline.client.list_offsets import EARLIEST, LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType, Leader, TopicGone
from ottla.pipeline.client.retries import Retries
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import TIMEOUT_S, fill, make_topic, settings_for

pytestmark = pytest.mark.slow


def test_topics_are_described_with_ids_and_leaders(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap, partitions=3)

    found = client().topics([name, f"{name}-not"])

    assert [*found] == [name]
    assert found[name].topic_id != ZERO_UUID
    assert sorted(found[name].leaders) == [0, 1, 2]
    assert all(leader.node_id >= 0 for leader in found[name].leaders.values())


def test_a_pattern_matches_whole_names_and_no_internal_topic(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap)
    make_topic(bootstrap, name=f"{name}x")
    commit_offsets(client(), "any", {TopicPartition(name, 0): CommittedOffset(offset=0)})

    assert [*client().topics_matching(re.compile(name[:-1] + "."))] == [name]
    assert "__consumer_offsets" not in client().topics_matching(re.compile(".*"))
    assert "__consumer_offsets" in client(exclude_internal_topics="false").topics_matching(re.compile(".*"))


def test_a_missing_topic_is_gone_after_some_requests(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap)

    with pytest.raises(TopicGone, match="topic nowhere does not exist"):
        client().leader(TopicPartition("nowhere", 0))
    with pytest.raises(TopicGone, match=f"topic {name} has no partition 7"):
        client().leader(TopicPartition(name, 7))
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION: topic 'a b'"):
        client().topic("a b")


def test_a_partition_that_was_added_is_found(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap)
    cluster = client()
    cluster.leader(TopicPartition(name, 0))

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for grown in admin.create_partitions([NewPartitions(name, 2)]).values():
        grown.result(TIMEOUT_S)

    deadline = time.monotonic() + TIMEOUT_S
    while 1 not in cluster.topics([name])[name].leaders:  # the node that is asked hears of it a moment later
        assert time.monotonic() < deadline
    assert cluster.leader(TopicPartition(name, 1)).node_id >= 0


def test_offsets_are_listed_by_place_and_time(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap, partitions=3)
    start_ms = 1_700_000_000_000
    for partition in (0, 1):
        fill(
            bootstrap,
            name,
            [b"v"] * (4 + partition),
            partition=partition,
            timestamp_ms=start_ms,
        )
    first, second, empty = (TopicPartition(name, partition) for partition in range(3))

    assert list_offsets(client(), dict.fromkeys((first, second, empty), LATEST)) == {
        first: 4,
        second: 5,
        empty: 0,
    }
    assert list_offsets(client(), {first: EARLIEST, second: start_ms + 2}) == {first: 0, second: 2}
    assert list_offsets(client(), {first: start_ms + 4, second: start_ms + 4, empty: 0}) == {second: 4}
    assert list_offsets(client(), {}) == {}


def test_offsets_are_requested_from_the_current_leader(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap, partitions=4)
    cluster = client()
    right = dict(cluster.topic(name).leaders)
    nodes = sorted({leader.node_id for leader in right.values()})
    if len(nodes) == 1:
        pytest.skip("the cluster has one node")
    turned = {node: nodes[(index + 1) % len(nodes)] for index, node in enumerate(nodes)}
    topic, read_ms = cluster._topics[name]
    wrong = {index: Leader(turned[leader.node_id], leader.epoch) for index, leader in right.items()}
    cluster._topics[name] = (
        type(topic)(name=name, topic_id=topic.topic_id, leaders=wrong, is_internal=False),
        read_ms,
    )

    found = list_offsets(cluster, {TopicPartition(name, index): LATEST for index in range(4)})

    assert [*found.values()] == [0] * 4
    assert dict(cluster.topic(name).leaders) == right


def test_a_connection_that_is_lost_is_made_again(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap)
    cluster = client()
    partition = TopicPartition(name, 0)
    connection = cluster.connections.to(cluster.leader(partition).node_id, Purpose.CONTROL)

    assert connection._socket is not None
    connection._socket.shutdown(2)

    assert list_offsets(cluster, {partition: LATEST}) == {partition: 0}


def test_a_group_keeps_offsets_of_a_client_that_is_no_member(bootstrap: str, client: MakeClient) -> None:
    name = make_topic(bootstrap, partitions=2)
    group = f"g-{uuid4().hex}"
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)

    commit_offsets(client(), group, {first: CommittedOffset(offset=7, metadata="batch 3")})

    assert committed_offsets(client(), group) == {first: CommittedOffset(offset=7, metadata="batch 3")}
    assert committed_offsets(client(), group, [second]) == {}
    assert committed_offsets(client(), group, []) == {}
    assert committed_offsets(client(), f"{group}-not") == {}


def test_offsets_of_a_topic_that_is_gone_are_not_committed(client: MakeClient) -> None:
    with pytest.raises(TopicGone, match="topic nowhere has no partition 0"):
        commit_offsets(client(), "any", {TopicPartition("nowhere", 0): CommittedOffset(offset=1)})


def test_offsets_of_a_topic_are_committed_once_the_coordinator_knows_it(
    bootstrap: str, client: MakeClient
) -> None:
    name, group = f"t-{uuid4().hex}", f"g-{uuid4().hex}"

    class ConcurrentTopicCreation(Retries):
        def pause_ms(self, failures: int) -> float:
            if failures == 1:
                make_topic(bootstrap, name=name)
            return super().pause_ms(failures)

    committed_offsets(client(), group)  # makes sure that there is a coordinator
    settings = settings_for(bootstrap, retry_backoff_ms="100")
    with closing(Cluster(settings, ConcurrentTopicCreation(settings))) as cluster:
        commit_offsets(cluster, group, {TopicPartition(name, 0): CommittedOffset(offset=7)})

        assert committed_offsets(cluster, group) == {TopicPartition(name, 0): CommittedOffset(offset=7)}


def test_a_coordinator_that_moved_is_found_again(bootstrap: str, client: MakeClient) -> None:
    cluster = client()
    group = f"g-{uuid4().hex}"
    committed_offsets(cluster, group)
    right = cluster._coordinators[CoordinatorType.GROUP, group]

    cluster._coordinators[CoordinatorType.GROUP, group] = (right + 1) % 3

    assert committed_offsets(cluster, group) == {}
    assert cluster._coordinators[CoordinatorType.GROUP, group] == right


def test_an_unreachable_cluster_is_an_error_when_the_time_is_up(client: MakeClient) -> None:
    cluster = client(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms="50")

    with pytest.raises(KafkaError, match="Connection refused") as failed:
        cluster.topics(["t"])

    assert failed.value.code is ErrorCode.NETWORK_EXCEPTION
