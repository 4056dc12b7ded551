"""Observers receive all commits, even after a gap, and submit commands to the leader."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.command_codec import encode_command
from ottla.metadata_raft.commands import BrokerHeartbeat, CreateTopics, NewTopic
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage
from ottla.node.kafka_api.served_apis import SERVED_TO_PEERS
from ottla.node.metadata import metadata_feed
from ottla.node.net.answers import Pending
from ottla.node.net.connection import Connection
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest
from ottla.node.wire.messages.submit_command import Client, SubmitCommandRequest, SubmitCommandResponse
from ottla.node.wire.peer_api import PeerApi
from tests.unit.node.net.peer_node import ObserverNode, PeerNode, observing, serving

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
SUBMIT = int(PeerApi.SUBMIT_COMMAND).to_bytes(2, "big")


def create(*names: str) -> CreateTopics:
    topics = [
        NewTopic(name=name, topic_id=name.encode().ljust(16, b"-"), num_partitions=1, replication_factor=1)
        for name in names
    ]
    return CreateTopics(topics=topics)


async def started(node: PeerNode) -> PeerNode:
    await node.start()
    return node


def test_an_observer_gets_commits_from_before_and_after_its_start() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter, observing(ObserverNode(1, voter)) as node:
            await node.reaches(voter.metadata.image.version)

            await voter.metadata.submit(create("a"))
            await node.reaches(voter.metadata.image.version)

            assert node.metadata.image == voter.metadata.image
            assert node.metadata.controller_id == 0

    asyncio.run(scene())


def test_an_observer_far_behind_the_batches_in_memory_fetches_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_feed, "MAX_RECORDS", 6)
    monkeypatch.setattr(metadata_feed, "MAX_ANSWER_BYTES", 100)  # so that the snapshot has several pieces
    snapshots: list[MetadataImage] = []

    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter:
            for index in range(20):
                await voter.metadata.submit(create(f"t{index}"))
            node = ObserverNode(1, voter)
            node.metadata.add_commit_listener(
                lambda batch, image: snapshots.append(image) if batch is None else None
            )
            async with observing(node):
                await node.reaches(voter.metadata.image.version)
                await voter.metadata.submit(create("after"))
                await node.reaches(voter.metadata.image.version)

            assert node.metadata.image == voter.metadata.image

    asyncio.run(scene())
    assert len(snapshots) == 1


def test_a_snapshot_is_passed_on_with_its_changes() -> None:
    published: list[MetadataChanges] = []

    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter:
            await voter.metadata.submit(create("a", "b"))
            voter.metadata_feed.add(None, voter.metadata.image)
            node = ObserverNode(1, voter)
            node.metadata.add_listener(lambda image, changes: published.append(changes))
            async with observing(node):
                await node.reaches(voter.metadata.image.version)

    asyncio.run(scene())
    assert [one.after.name for one in published[0].topics if one.after] == ["a", "b"]
    assert published[0].brokers == {0} and published[0].features


def test_a_node_gets_its_snapshot_although_the_one_that_asked_first_disconnects() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter:
            await voter.metadata.submit(create("a"))
            feed, image = voter.metadata_feed, voter.metadata.image
            feed.add(None, image)
            request = FetchMetadataRequest(fetch_offset=1, last_epoch=0, max_bytes=1000, max_wait_ms=0)
            first, second = (asyncio.ensure_future(feed.fetch(request, 0)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()

            assert (await second).snapshot_offset == image.version + 1
            assert first.cancelled()

    asyncio.run(scene())


def test_many_observers_share_the_bytes_of_a_batch() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter:
            nodes = [ObserverNode(number, voter) for number in range(1, 6)]
            runs = [asyncio.ensure_future(node.metadata.run()) for node in nodes]
            await asyncio.gather(*(node.reaches(voter.metadata.image.version) for node in nodes))

            await asyncio.gather(*(voter.metadata.submit(create(f"t{number}")) for number in range(30)))
            await asyncio.gather(*(node.reaches(voter.metadata.image.version) for node in nodes))

            assert all(node.metadata.image == voter.metadata.image for node in nodes)
            for node in nodes:
                node.metadata.close()
            await asyncio.gather(*runs)
            for node in nodes:
                node.peers.close()

    asyncio.run(scene())


def test_a_node_that_may_miss_commits_serves_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_feed, "LOOK_S", 0.02)

    async def scene() -> None:
        left, voter = await started(PeerNode(0)), await started(PeerNode(1))
        async with serving(left), serving(voter), observing(ObserverNode(2, left, voter)) as node:
            await node.reaches(left.metadata.image.version)
            await voter.metadata.submit(create("a"))

            left.voters = [voter]
            left.quorum.lose_leadership()  # the node's fetch is waiting there by now

            await node.reaches(voter.metadata.image.version)
            assert node.metadata.controller_id == voter.metadata.controller_id

    asyncio.run(scene())


def test_a_command_of_an_observer_is_decided_by_the_leader_and_visible_when_answered() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter, observing(ObserverNode(1, voter)) as node:
            reply = await node.metadata.submit(create("a"))

            assert reply.topics[0].error_code == ErrorCode.NONE
            assert "a" in node.metadata.image.topics.by_name

    asyncio.run(scene())


def test_a_command_that_is_sent_again_is_carried_out_once() -> None:
    async def scene() -> None:
        voter = await started(PeerNode(0))
        async with serving(voter), observing(ObserverNode(1, voter)) as node:
            node.metadata.broker_epoch = voter.metadata.broker_epoch  # of any registered broker
            lost = 0

            def lose(connection: Connection, frame: memoryview) -> Any:
                nonlocal lost
                answer = serve(connection, frame)
                if isinstance(answer, Pending) and frame[:2] == SUBMIT and not lost:
                    lost += 1
                    asyncio.get_running_loop().call_soon(connection.abort, "the cable is pulled")
                return answer

            serve = voter.listener.service.serve
            voter.listener.service = voter.listener.service._replace(serve=lose)

            reply = await node.metadata.submit(create("a"))

            assert lost and reply.topics[0].error_code == ErrorCode.NONE, "a second creation would fail"

    asyncio.run(scene())


def test_a_command_for_another_broker_is_rejected() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter, observing(ObserverNode(1, voter)) as node:
            with pytest.raises(KafkaError) as refused:
                await node.metadata.submit(
                    BrokerHeartbeat(broker_id=0, broker_epoch=voter.metadata.broker_epoch)
                )

            assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    asyncio.run(scene())


def test_a_command_waits_for_a_leader_until_its_time_is_up() -> None:
    async def scene() -> None:
        async with serving(await started(PeerNode(0))) as voter, observing(ObserverNode(1, voter)) as node:
            await node.reaches(voter.metadata.image.version)
            voter.quorum.lose_leadership()
            with pytest.raises(KafkaError) as refused:
                await node.metadata.submit(create("a"), timeout_ms=100)
            creating = asyncio.ensure_future(node.metadata.submit(create("a")))
            await asyncio.sleep(0.05)

            voter.quorum.leader_id = 0
            voter.quorum.win_election()

            assert refused.value.code is ErrorCode.NOT_CONTROLLER
            assert (await creating).topics[0].error_code == ErrorCode.NONE

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("client", "is_refused"),
    [
        (ClientIdentity("User:ann", "10.0.0.1"), True),
        (ClientIdentity("User:root", "10.0.0.1"), False),
        (None, False),
    ],
)
def test_the_controller_authorizes_the_client_of_a_command(
    client: ClientIdentity | None, is_refused: bool
) -> None:
    async def scene() -> list[str]:
        voter = await started(PeerNode(0, settings=AUTHORIZER))
        async with serving(voter), observing(ObserverNode(1, voter)) as node:
            if is_refused:
                with pytest.raises(KafkaError) as refused:
                    await node.metadata.submit(create("a"), client=client)
                assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert "User:ann from 10.0.0.1 needs CREATE permission on TOPIC 'a'" in refused.value.detail
            else:
                await node.metadata.submit(create("a"), client=client)
            return list(voter.metadata.image.topics.by_name)

    assert asyncio.run(scene()) == ([] if is_refused else ["a"])


def test_a_node_of_an_older_version_decides_for_the_node_that_sent_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SERVED_TO_PEERS, PeerApi.SUBMIT_COMMAND, (0, 0))

    async def scene() -> list[str]:
        voter = await started(PeerNode(0, settings=AUTHORIZER))
        async with serving(voter), observing(ObserverNode(1, voter)) as node:
            await node.metadata.submit(create("a"), client=ClientIdentity("User:ann", "10.0.0.1"))
            return list(voter.metadata.image.topics.by_name)

    assert asyncio.run(scene()) == ["a"]


def test_a_peer_that_is_not_authenticated_as_a_node_cannot_name_a_client() -> None:
    async def scene() -> None:
        voter = await started(PeerNode(0, settings=AUTHORIZER))
        async with serving(voter):
            request = SubmitCommandRequest(
                command=encode_command(create("a")), client=Client(principal="User:root", host="10.0.0.1")
            )
            client = await PeerClient.connect("127.0.0.1", voter.listener.port, client_id="x")
            client.learn_versions({PeerApi.SUBMIT_COMMAND: (0, 1)})
            with pytest.raises(KafkaError) as refused:
                await client.request(request, SubmitCommandResponse, timeout_s=5)
            assert refused.value.code is ErrorCode.NETWORK_EXCEPTION
            assert not voter.metadata.image.topics.by_name

    asyncio.run(scene())
