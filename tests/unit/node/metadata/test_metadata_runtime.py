"""The metadata runtime: when a command returns, and what happens to it when the leader changes."""

import asyncio
import random
from typing import cast

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AlterConfigs,
    ConfigChange,
    CreateTopics,
    NewTopic,
    RemoveRaftVoter,
    ResourceChanges,
    VoterListener,
)
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.quorum_memory import MemoryQuorum
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import FeatureLevelRecord
from ottla.node.clock import ManualClock
from ottla.node.metadata.command_sender import CommandSender, Leader
from ottla.node.metadata.controller_runtime import Decided
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.net.peer_client import PeerClient
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.metadata_raft.metadata_world import EMPTY
from tests.unit.node.metadata.metadata_node import MetadataNode


def create(name: str) -> CreateTopics:
    return CreateTopics(topics=[NewTopic(name=name, topic_id=name.encode().ljust(16, b"-"))])


async def started(*, by_hand: bool) -> MetadataNode:
    node = MetadataNode(by_hand=by_hand)
    start = asyncio.ensure_future(node.start())
    while not start.done():
        await asyncio.sleep(0)
        node.quorum.commit()
    return node


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_command_is_answered_when_it_is_committed_and_published() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        was_done: list[bool] = []
        submitted = asyncio.ensure_future(node.metadata.submit(create("a")))
        node.metadata.add_listener(lambda image, changes: was_done.append(submitted.done()))
        await turns()
        assert not submitted.done() and "a" not in node.metadata.image.topics.by_name

        node.quorum.commit()

        assert (await submitted).topics[0].error_code == ErrorCode.NONE
        assert "a" in node.metadata.image.topics.by_name and was_done == [False]

    asyncio.run(scene())


def test_cached_responses_are_cleared_when_the_metadata_change() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        kept = (node.metadata.encoded_answers, node.metadata.encoded_versions)
        for one in kept:
            one.put((4,), [b"old"])
        submitted = asyncio.ensure_future(node.metadata.submit(create("a")))
        await turns()
        assert [one.get((4,)) for one in kept] == [[b"old"], [b"old"]]

        node.quorum.commit()

        assert [one.get((4,)) for one in kept] == [None, None]
        await submitted

    asyncio.run(scene())


def test_commands_do_not_wait_for_each_other_and_see_each_other() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        first, second, third = (
            asyncio.ensure_future(node.metadata.submit(create(name))) for name in ("a", "b", "a")
        )
        await turns()

        node.quorum.commit(1)
        await turns()
        # The third was rejected because of the first. It has no records, but waits for the second, too.
        assert first.done() and not second.done() and not third.done()
        node.quorum.commit(1)

        assert (await third).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    asyncio.run(scene())


def test_a_cancelled_command_does_not_fail_others_that_wait_for_the_same_commit() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        first = asyncio.ensure_future(node.metadata.submit(create("a")))
        await turns()
        second = asyncio.ensure_future(node.metadata.submit(create("a")))  # rejected, and waits for the first
        await turns()

        second.cancel()
        await turns()
        node.quorum.commit()

        assert (await first).topics[0].error_code == ErrorCode.NONE
        assert second.cancelled()

    asyncio.run(scene())


def test_commands_that_are_not_committed_when_leadership_is_lost_fail() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        submitted = asyncio.ensure_future(node.metadata.submit(create("a"), timeout_ms=0))
        await turns()

        node.quorum.lose_leadership()

        with pytest.raises(KafkaError) as failed:
            await submitted
        assert failed.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(KafkaError):
            await node.metadata.submit(create("a"), timeout_ms=0)
        node.quorum.win_election()
        again = asyncio.ensure_future(node.metadata.submit(create("a")))
        await turns()
        node.quorum.commit()
        assert (await again).topics[0].error_code == ErrorCode.NONE

    asyncio.run(scene())


class Voters:
    """Stands in for the sender to the other voters, none of which leads; `requested` lists their ids."""

    def __init__(self) -> None:
        self.hint = Leader(-1, -1)
        self.requested: list[int] = []

    async def send(
        self, node_id: int, command: object, request: object, timeout_s: float, client: object = None
    ) -> Decided:
        self.requested.append(node_id)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")


class RunningQuorum(MemoryQuorum):
    """A quorum that runs until it is cancelled."""

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_a_new_leader_is_asked_at_once_even_if_it_rejected_the_command_before() -> None:
    """A heartbeat that waited for the end of its backoff would be late, and a running broker be fenced."""

    async def scene() -> None:
        quorum, voters = RunningQuorum(), Voters()
        metadata = MetadataRuntime(
            quorum=quorum,
            image=EMPTY,
            config=ControllerConfig(),
            clock=ManualClock(),
            broker_id=0,
            sender=cast(CommandSender, voters),
            voters=lambda: (0, 1, 2),
            retry_backoff_ms=3_600_000,
        )
        quorum.lose_leadership()
        running = asyncio.ensure_future(metadata.run())
        asking = asyncio.ensure_future(metadata.submit(create("a"), timeout_ms=86_400_000))
        while not voters.requested:
            await asyncio.sleep(0)
        quorum.leader_id, quorum.epoch = voters.requested[0], quorum.epoch + 1

        async with asyncio.timeout(60):
            while len(voters.requested) < 2:
                await asyncio.sleep(0.01)

        assert voters.requested[1] == voters.requested[0]
        asking.cancel()
        running.cancel()

    asyncio.run(scene())


def test_a_command_times_out_while_its_leader_is_not_connected_yet() -> None:
    """A connection to a lost node waits for a backoff of up to a second; a client may have less time."""

    async def dial_later(node_id: int, purpose: str) -> PeerClient:
        await asyncio.sleep(3_600)
        raise AssertionError

    async def scene() -> None:
        quorum = MemoryQuorum()
        metadata = MetadataRuntime(
            quorum=quorum,
            image=EMPTY,
            config=ControllerConfig(),
            clock=ManualClock(),
            broker_id=0,
            sender=CommandSender(dial_later),
            voters=lambda: (0, 1),
        )
        quorum.lose_leadership()

        async with asyncio.timeout(60):
            with pytest.raises(KafkaError, match="No connection to node 1") as refused:
                await metadata.submit(create("a"), timeout_ms=50)

        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(scene())


def test_a_batch_of_another_leader_is_published_too() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        before = node.metadata.image
        record = FeatureLevelRecord(name="group.version", feature_level=1)
        batch = MetadataBatch(before.version + 1, 9, 5, [record])

        node.metadata.handle_commit(batch, *replay_batch(before, batch))

        assert node.metadata.image == replay_batch(before, batch)[0]
        assert node.metadata.image.features["group.version"] == 1

    asyncio.run(scene())


def test_a_thousand_producer_ids_cost_one_commit() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        before = len(node.quorum.log)

        ids = [await node.producer_ids.next() for _ in range(1000)]
        assert len(node.quorum.log) == before + 1
        ids += [await node.producer_ids.next() for _ in range(2)]

        assert ids == list(range(1002)) and len(node.quorum.log) == before + 2

    asyncio.run(scene())


def test_concurrent_producers_share_a_block() -> None:
    async def scene() -> None:
        node = await started(by_hand=True)
        submitted = [asyncio.ensure_future(node.producer_ids.next()) for _ in range(50)]
        await turns()

        node.quorum.commit()

        assert sorted([await one for one in submitted]) == list(range(50))

    asyncio.run(scene())


def test_a_new_process_of_a_broker_begins_new_leader_epochs() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        await node.metadata.submit(create("a"))
        first_epoch = node.metadata.broker_epoch

        await node.register(b"another-process-")
        between = node.metadata.image.topics.by_name["a"].partitions[0]
        await node.unfence()
        after = node.metadata.image.topics.by_name["a"].partitions[0]

        assert (between.leader, between.leader_epoch) == (-1, 1)
        assert (after.leader, after.leader_epoch, after.isr) == (0, 2, (0,))
        assert node.metadata.broker_epoch > first_epoch

    asyncio.run(scene())


def test_a_broker_that_lost_its_connection_before_this_node_led_is_fenced_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as the last leader: it has failed, and its session would last for some more seconds."""

    async def scene() -> None:
        node = await started(by_hand=False)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        monkeypatch.setattr(loop, "time", lambda: begin)
        node.quorum.lose_leadership()
        node.metadata.broker_id = 1  # a broker that is not registered yet
        node.metadata.peer_lost(0)
        node.quorum.win_election()

        monkeypatch.setattr(loop, "time", lambda: begin + 0.4)
        node.metadata.tick()
        within_the_grace = node.metadata.image.brokers[0].fenced
        monkeypatch.setattr(loop, "time", lambda: begin + 1.1)
        node.metadata.tick()

        assert (within_the_grace, node.metadata.image.brokers[0].fenced) == (False, True)

    asyncio.run(scene())


@pytest.mark.parametrize("leads", [True, False])
def test_the_leader_fences_a_broker_whose_process_is_gone_at_once(leads: bool) -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        if not leads:
            node.quorum.lose_leadership()

        node.metadata.peer_gone(0, node.metadata.broker_epoch)
        if not leads:
            node.quorum.win_election()

        assert node.metadata.image.brokers[0].fenced

    asyncio.run(scene())


@pytest.mark.parametrize(("lost", "fenced_after_s"), [(True, 0.5), (False, 9.0)])
def test_an_idle_controller_ticks_rarely_but_fences_a_broker_on_time(
    lost: bool, fenced_after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second after a lost connection, or `broker.session.timeout.ms` after the last heartbeat."""

    async def scene() -> None:
        node = MetadataNode()
        await node.start()
        loop, ticks = asyncio.get_running_loop(), list[float]()
        heard_s, tick = loop.time(), node.metadata.tick
        monkeypatch.setattr(node.quorum, "run", asyncio.Event().wait)
        monkeypatch.setattr(node.metadata, "tick", lambda: (ticks.append(loop.time()), tick()))
        running = asyncio.ensure_future(node.metadata.run())
        await asyncio.sleep(5.26)
        assert len(ticks) <= 12

        if lost:
            heard_s = loop.time()
            node.metadata.peer_lost(0)
        while not node.metadata.image.brokers[0].fenced:
            await asyncio.sleep(0.001)

        assert 0 < loop.time() - heard_s - fenced_after_s < 0.005
        running.cancel()

    VirtualLoop(random.Random(1)).run(scene(), limit_s=60)


def test_a_controller_checks_for_unclean_elections_at_once_when_settings_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        node = MetadataNode()
        await node.start()
        await node.metadata.submit(create("a"))
        monkeypatch.setattr(node.quorum, "run", asyncio.Event().wait)
        running = asyncio.ensure_future(node.metadata.run())
        await asyncio.sleep(0.26)
        ticks: list[float] = []
        monkeypatch.setattr(node.metadata, "tick", lambda: ticks.append(asyncio.get_running_loop().time()))

        await node.metadata.submit(
            AlterConfigs(
                resources=[
                    ResourceChanges(
                        resource_type=2,
                        resource_name="a",
                        changes=[ConfigChange(name="retention.ms", operation=0, value="1")],
                    )
                ]
            )
        )
        await turns()

        assert len(ticks) == 1
        running.cancel()

    VirtualLoop(random.Random(1)).run(scene(), limit_s=60)


def test_the_end_of_an_earlier_process_does_not_fence_a_broker() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)

        node.metadata.peer_gone(0, node.metadata.broker_epoch - 1)

        assert not node.metadata.image.brokers[0].fenced

    asyncio.run(scene())


def test_a_leader_that_cannot_hand_over_yet_still_runs_the_loop() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        for voter_id in (node.quorum.leader_id, node.quorum.leader_id + 1):
            listener = VoterListener(name="CONTROLLER", host="localhost", port=9093)
            directory_id = bytes([voter_id + 1]) * 16
            await node.metadata.submit(
                AddRaftVoter(voter_id=voter_id, voter_directory_id=directory_id, listeners=[listener])
            )
        remove = RemoveRaftVoter(
            voter_id=node.quorum.leader_id, voter_directory_id=bytes([node.quorum.leader_id + 1]) * 16
        )

        submitted = asyncio.ensure_future(node.metadata.submit(remove, timeout_ms=200))
        await turns(20)

        assert not submitted.done() and node.quorum.handed_over == 1
        with pytest.raises(KafkaError):
            await submitted
        assert node.quorum.handed_over < 20

    asyncio.run(scene())


def large(name: str, partitions: int = 5_000) -> CreateTopics:
    topic = NewTopic(
        name=name, topic_id=name.encode().ljust(16, b"-"), num_partitions=partitions, replication_factor=1
    )
    return CreateTopics(topics=[topic])


def test_a_large_topic_is_decided_in_turns_and_others_are_decided_meanwhile() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        submitted = asyncio.ensure_future(node.metadata.submit(large("large")))
        await turns(2)
        assert not submitted.done() and "large" not in node.metadata.image.topics.by_name

        reply = await node.metadata.submit(create("small"))

        assert reply.topics[0].error_code == ErrorCode.NONE
        assert not submitted.done(), "the small one did not wait for the large one"
        assert (await submitted).topics[0].error_code == ErrorCode.NONE
        topics = node.metadata.image.topics.by_name
        assert len(topics["large"].partitions) == 5_000 and "small" in topics

    asyncio.run(scene())


def test_a_large_topic_is_created_however_many_commands_are_decided_meanwhile() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        submitted = asyncio.ensure_future(node.metadata.submit(large("large")))
        made = 0
        while not submitted.done():
            await node.metadata.submit(create(f"small-{made}"))
            made += 1
            await turns(1)

        topics = node.metadata.image.topics.by_name
        assert len(topics["large"].partitions) == 5_000
        assert 1 < made < 100 and len(topics) == 1 + made

    asyncio.run(scene())


def test_a_topic_that_another_command_created_meanwhile_is_not_created_again() -> None:
    async def scene() -> None:
        node = await started(by_hand=False)
        submitted = asyncio.ensure_future(node.metadata.submit(large("t")))
        await turns(2)
        await node.metadata.submit(create("t"))

        assert (await submitted).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert len(node.metadata.image.topics.by_name["t"].partitions) == 1

    asyncio.run(scene())
