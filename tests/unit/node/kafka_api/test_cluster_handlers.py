"""Requests about the cluster itself: elections, reassignments, the quorum, features, registered brokers."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.metadata_raft.commands import BrokerHeartbeat, RegisterBroker
from ottla.metadata_raft.metadata_version import METADATA_VERSION
from ottla.metadata_raft.records import BrokerEndpoint, BrokerFeature
from ottla.node.counters.history import COLUMNS, History, Kind, unpacked
from ottla.node.counters.node_counts import METERS
from ottla.node.counters.request_counters import AllRequestCounters
from ottla.node.counters.topic_counters import TopicCounters
from ottla.node.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.node.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.node.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, KeptHistory
from ottla.node.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from ottla.node.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.node.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.node.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.node.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.node.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.node.fakes import Counted
from tests.unit.node.metadata.metadata_node import MetadataNode

OTHERS = (1, 2)


async def cluster(**settings: str) -> MetadataNode:
    """Return a node that leads a cluster of three; the others exist in the metadata only."""
    node = MetadataNode({name.replace("_", "."): value for name, value in settings.items()})
    await node.start()
    for broker_id in OTHERS:
        await come_up(node, broker_id)
    return node


async def come_up(
    node: MetadataNode, broker_id: int, *, unfence: bool = True, controller_port: int | None = None
) -> int:
    controllers = []
    if controller_port is not None:
        controllers = [BrokerEndpoint(name="CONTROLLER", host=f"controller{broker_id}", port=controller_port)]
    reply = await node.metadata.submit(
        RegisterBroker(
            broker_id=broker_id,
            incarnation_id=b"process of a brk",
            listeners=[BrokerEndpoint(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
            controller_listeners=controllers,
            log_dirs=[b"directory of no%d" % broker_id],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
        )
    )
    if unfence:
        await heartbeat(node, broker_id, reply.broker_epoch)
    return reply.broker_epoch


async def heartbeat(node: MetadataNode, broker_id: int, broker_epoch: int, **wanted: bool) -> None:
    await node.metadata.submit(
        BrokerHeartbeat(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=node.metadata.image.version,
            **wanted,
        )
    )


async def create(node: MetadataNode, name: str, *replicas: int) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[]
    )
    response = await node.ask(7, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0]


def run(scenario: Any) -> None:
    asyncio.run(scenario())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_preferred_replica_that_is_not_in_sync_is_not_elected(version: int) -> None:
    async def scenario() -> None:
        node = await cluster()
        await create(node, "t", 1, 0, 2)
        broker_epoch = node.metadata.image.brokers[1].broker_epoch
        await heartbeat(node, 1, broker_epoch, want_fence=True)
        assert node.metadata.image.topics.by_name["t"].partitions[0].leader == 0
        await heartbeat(node, 1, broker_epoch)
        wanted = [TopicPartitions(topic="t", partitions=[0, 7])]

        refused = await node.ask(version, ElectLeadersRequest(topic_partitions=wanted))

        results = refused.replica_election_results[0].partition_result
        assert results[0].error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert results[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_a_reassignment_is_ongoing_until_the_new_replica_is_in_sync() -> None:
    async def scenario() -> None:
        node = await cluster()
        await create(node, "t", 0)
        await create(node, "stays", 0)
        move = ReassignablePartition(partition_index=0, replicas=[1])
        topics = [ReassignableTopic(name="t", partitions=[move])]

        done = await node.ask(1, AlterPartitionReassignmentsRequest(topics=topics))
        listed = await node.ask(0, ListPartitionReassignmentsRequest())

        assert done.error_code == 0 and done.responses[0].partitions[0].error_code == 0
        assert [topic.name for topic in listed.topics] == ["t"]
        moving = listed.topics[0].partitions[0]
        assert (list(moving.adding_replicas), list(moving.removing_replicas)) == ([1], [0])
        named = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 5])
            for name in ("t", "stays", "x")
        ]
        again = await node.ask(0, ListPartitionReassignmentsRequest(topics=named))
        assert again == listed

        cancel = [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0)])]
        await node.ask(1, AlterPartitionReassignmentsRequest(topics=cancel))
        assert not (await node.ask(0, ListPartitionReassignmentsRequest())).topics

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_by_its_leader(version: int) -> None:
    async def scenario() -> None:
        node = await cluster()
        topics = [TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest()])]

        response = await node.ask(version, DescribeQuorumRequest(topics=topics))

        (first,) = response.topics[0].partitions
        assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 0, 1)
        assert first.high_watermark == node.metadata.image.version + 1
        assert [voter.replica_id for voter in first.current_voters] == [0]
        assert [one.replica_id for one in first.observers] == [1, 2], (
            "brokers report their offsets with heartbeats"
        )
        assert all(one.log_end_offset > 0 for one in first.observers)

    run(scenario)


@pytest.mark.parametrize(
    "requested",
    [
        [("__cluster_metadata", (0, 0))],
        [("__cluster_metadata", (0, 1))],
        [("__cluster_metadata", (0,)), ("__cluster_metadata", (0,))],
        [("__cluster_metadata", (0,)), ("flights", (0,))],
        [("__cluster_metadata", (1,))],
    ],
)
def test_only_one_partition_of_the_quorum_is_described(requested: list[tuple[str, tuple[int, ...]]]) -> None:
    """Apache Kafka does so; thousands of them in one request would block the controller."""

    async def scenario() -> None:
        node = await cluster()
        topics = [
            TopicDataRequest(
                topic_name=name, partitions=[PartitionDataRequest(partition_index=one) for one in indexes]
            )
            for name, indexes in requested
        ]

        response = await node.ask(2, DescribeQuorumRequest(topics=topics))

        partitions = [(one.topic_name, each) for one in response.topics for each in one.partitions]
        assert [(name, one.partition_index) for name, one in partitions] == [
            (name, index) for name, indexes in requested for index in indexes
        ]
        assert {one.error_code for _, one in partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert not any(one.current_voters or one.observers for _, one in partitions)

    run(scenario)


def test_a_voter_without_a_vote_is_described_with_the_reason() -> None:
    async def scenario() -> None:
        node = await cluster()
        status = node.quorum.status()
        (own,) = status.voters
        voters = [
            own,
            own._replace(node_id=1, is_disk_old=True),
            own._replace(node_id=2, is_disk_copied=True),
        ]
        node.quorum.status = lambda: status._replace(voters=voters)  # type: ignore[method-assign]
        topics = [TopicDataRequest(topic_name="__cluster_metadata", partitions=[PartitionDataRequest()])]

        response = await node.ask(2, DescribeQuorumRequest(topics=topics))

        described = response.topics[0].partitions[0].current_voters
        assert [one.is_disk_old for one in described] == [False, True, False]
        assert [one.is_disk_copied for one in described] == [False, False, True]

    run(scenario)


def test_fenced_brokers_are_described_if_asked_for() -> None:
    async def scenario() -> None:
        node = await cluster()
        await come_up(node, 3, unfence=False)

        some = await node.ask(2, DescribeClusterRequest())
        all_of_them = await node.ask(2, DescribeClusterRequest(include_fenced_brokers=True))

        assert [one.broker_id for one in some.brokers] == [0, 1, 2] and some.controller_id == 0
        brokers = [(one.broker_id, one.host, one.is_fenced) for one in all_of_them.brokers]
        assert brokers[-1] == (3, "host3", True) and not any(fenced for *_, fenced in brokers[:-1])

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_counters_of_the_node_are_returned_to_clients_that_send_the_tag(version: int) -> None:
    async def scenario() -> None:
        node = await cluster()
        some = TopicCounters()
        some.bytes_in, some.messages_in = 700, 7
        requests = AllRequestCounters()
        vars(node).update(
            replica_manager=Counted({"some": some, "other": some}),
            request_counters=requests,
        )
        produces = requests.of("Produce", 11)
        produces.requests = 3
        produces.latency.observe(0.002, 3)

        counted = await node.ask(version, DescribeClusterRequest(include_counts=True))
        plain = await node.ask(version, DescribeClusterRequest())

        assert {one.name: one.count for one in counted.meters} == dict.fromkeys(METERS, 0) | {
            "bytes_in": 1400,
            "messages_in": 14,
        }
        [produce] = [one for one in counted.requests if one.api == "Produce"]
        assert (produce.count, sum(produce.latencies)) == (3, 3)
        assert list(plain.meters) == list(plain.requests) == []
        assert plain.brokers == counted.brokers

    run(scenario)


def test_a_history_is_returned_to_clients_that_send_the_tag() -> None:
    async def scenario() -> None:
        node = await cluster()
        kept = History(limit_bytes=1 << 20, interval_ms=1000)
        vars(node).update(history=kept)
        request = DescribeClusterRequest(history_kind=Kind.TOPIC, history_name="t")

        before = await node.ask(2, request)
        kept.begin(5_000, 0.0)
        kept.note(Kind.TOPIC, "t", (1, 2, 3, 4))
        history = (await node.ask(2, request)).history
        plain = await node.ask(2, DescribeClusterRequest())
        unknown = await node.ask(2, DescribeClusterRequest(history_kind=99, history_name="t"))

        assert (history.end_ms, history.interval_ms) == (5_000, 1_000)
        assert list(history.columns) == [one.name for one in COLUMNS[Kind.TOPIC]]
        assert unpacked(history.values)[3] == 4
        assert before.history == plain.history == unknown.history == KeptHistory()

    run(scenario)


def test_a_broker_that_is_gone_can_be_unregistered() -> None:
    async def scenario() -> None:
        node = await cluster()
        await come_up(node, 3, unfence=False)

        done = await node.ask(0, UnregisterBrokerRequest(broker_id=3))
        unknown = await node.ask(0, UnregisterBrokerRequest(broker_id=3))

        assert done.error_code == 0 and 3 not in node.metadata.image.brokers
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features_go_no_higher_than_every_broker_knows(version: int) -> None:
    async def scenario() -> None:
        node = await cluster()
        updates = [FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=999)]

        response = await node.ask(version, UpdateFeaturesRequest(feature_updates=updates))

        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION and not response.results

    run(scenario)


def test_voters_are_changed_in_this_cluster_only() -> None:
    async def scenario() -> None:
        node = await cluster()
        own = uuid_to_text(node.metadata.image.cluster_id)
        listeners = [Listener(name="CONTROLLER", host="h", port=1)]
        answers = []
        for cluster_id in ("another", own):
            add = AddRaftVoterRequest(
                cluster_id=cluster_id, voter_id=9, voter_directory_id=bytes(16), listeners=listeners
            )
            remove = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=9, voter_directory_id=bytes(16))
            answers += [await node.ask(1, add), await node.ask(0, remove)]

        assert [one.error_code for one in answers] == [
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.VOTER_NOT_FOUND,
        ]

    run(scenario)


def watch_the_controller(node: MetadataNode, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets all commands to the controller, and all voters that it connects to."""
    seen: list[Any] = []
    submit = node.metadata.submit

    async def submit_seen(command: Any, *arguments: Any) -> Any:
        seen.append(command)
        return await submit(command, *arguments)

    async def catch_up(voter: Any, timeout_seconds: float) -> None:
        seen.append((voter.host, voter.port))

    monkeypatch.setattr(node.metadata, "submit", submit_seen)
    monkeypatch.setattr(node.quorum, "catch_up", catch_up)
    return seen


CLIENTS_PORT, CONTROLLERS_PORT = 9092, 9093


@pytest.mark.parametrize(
    ("voter_id", "places", "message"),
    [
        (7, [("host2", CONTROLLERS_PORT)], "Node 7 is not registered as a broker of this cluster"),
        (2, [("10.0.0.9", CONTROLLERS_PORT)], "does not listen for controllers at 10.0.0.9:9093"),
        (2, [("host1", CONTROLLERS_PORT)], "does not listen for controllers at host1:9093"),
        (2, [("host2", 22)], "does not listen for controllers at host2:22"),
        (2, [("host2", CLIENTS_PORT)], "does not listen for controllers at host2:9092"),
        (2, [("host2", CONTROLLERS_PORT), ("host2", 22)], "does not listen for controllers at host2:22"),
        (1, [("host1", CONTROLLERS_PORT)], "Node 1 has not registered a listener for controllers"),
    ],
    ids=[
        "an unregistered id",
        "a foreign host",
        "the host of another node",
        "a foreign port",
        "the port for clients",
        "a second address",
        "a node that cannot be a controller",
    ],
)
def test_the_leader_connects_to_a_new_voter_only_at_its_registered_addresses(
    voter_id: int, places: list[tuple[str, int]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        node = await cluster()
        await come_up(node, 2, controller_port=CONTROLLERS_PORT)
        seen = watch_the_controller(node, monkeypatch)

        answer = await node.ask(
            1,
            AddRaftVoterRequest(
                cluster_id=None,
                voter_id=voter_id,
                voter_directory_id=b"directory of no2",
                listeners=[Listener(name="CONTROLLER", host=host, port=port) for host, port in places],
            ),
        )

        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert message in answer.error_message
        assert seen == []

    run(scenario)


def test_the_leader_does_not_connect_to_a_known_voter_at_another_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        node = await cluster()
        await come_up(node, 2, controller_port=CONTROLLERS_PORT)
        add = AddRaftVoterRequest(
            cluster_id=None,
            voter_id=2,
            voter_directory_id=b"directory of no2",
            listeners=[Listener(name="CONTROLLER", host="host2", port=CONTROLLERS_PORT)],
        )
        assert (await node.ask(1, add)).error_code == ErrorCode.NONE
        seen = watch_the_controller(node, monkeypatch)

        add.listeners[0].port = 22
        answer = await node.ask(1, add)

        assert answer.error_code == ErrorCode.DUPLICATE_VOTER and seen == []

    run(scenario)


@pytest.mark.parametrize("host", ["host2", "controller2"])
def test_the_leader_connects_to_a_new_voter_at_its_listener_for_controllers(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        node = await cluster()
        await come_up(node, 2, controller_port=CONTROLLERS_PORT)
        seen = watch_the_controller(node, monkeypatch)

        answer = await node.ask(
            1,
            AddRaftVoterRequest(
                cluster_id=None,
                voter_id=2,
                voter_directory_id=b"directory of no2",
                listeners=[Listener(name="CONTROLLER", host=host, port=CONTROLLERS_PORT)],
            ),
        )

        assert answer.error_code == ErrorCode.NONE
        assert (host, CONTROLLERS_PORT) in seen
        assert 2 in {voter.voter_id for voter in node.metadata.image.voters}

    run(scenario)
