"""The lifecycle of a broker: its heartbeats, the controller's answers, and missing answers."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterBrokerReply,
)
from ottla.metadata_raft.image import BrokerImage, MetadataImage
from ottla.node.clock import SystemClock
from ottla.node.metadata.broker_lifecycle import (
    MOVES,
    SHUTDOWN_TIMEOUT_S,
    BrokerLifecycle,
    BrokerState,
    Registration,
)
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.quorum_contact import QuorumContact
from tests.simulation.virtual_loop import VirtualLoop

INCARNATION_ID = b"this process ..."
Answer = Callable[[Any], Any]


class Cluster:
    """Stands in for the metadata: `answer` returns the reply to each command, or raises."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.sent: list[Any] = []
        self.broker_epoch = -1
        self.image = MetadataImage(version=7)

    async def submit(self, command: Any, timeout_ms: int = 0, client: Any = None) -> Any:
        self.sent.append(command)
        await asyncio.sleep(0)
        return self.answer(command)

    @property
    def heartbeats(self) -> list[BrokerHeartbeat]:
        return [one for one in self.sent if isinstance(one, BrokerHeartbeat)]


def lifecycle(
    cluster: Cluster,
    *,
    session_timeout_ms: int = 9_000,
    heartbeat_interval_ms: int = 2,
    on_cut_off: Callable[[bool], None] = print,
    is_quorum_gone: Callable[[], Awaitable[bool]] | None = None,
) -> BrokerLifecycle:
    return BrokerLifecycle(
        metadata=cast(MetadataRuntime, cluster),
        registration=Registration(
            broker_id=3,
            incarnation_id=INCARNATION_ID,
            listeners={},
            rack=None,
            log_dirs=[b"d" * 16],
            features={},
        ),
        heartbeat_interval_ms=heartbeat_interval_ms,
        contact=QuorumContact(session_timeout_ms / 1000),
        clock=SystemClock(),
        registration_timeout_ms=500,
        on_cut_off=on_cut_off,
        is_quorum_gone=is_quorum_gone,
    )


def play(scene: Coroutine[Any, Any, None]) -> None:
    VirtualLoop(random.Random(1)).run(scene, limit_s=60)


def accept(command: Any) -> Any:
    if isinstance(command, RegisterBroker):
        return RegisterBrokerReply(broker_epoch=5)
    return BrokerHeartbeatReply(
        is_caught_up=True, is_fenced=command.want_fence, should_shut_down=command.want_shut_down
    )


def test_from_registration_to_the_end() -> None:
    async def scene() -> None:
        cluster = Cluster(accept)
        broker = lifecycle(cluster)
        await broker.register()
        running = asyncio.ensure_future(broker.run())
        await asyncio.sleep(0.01)
        assert cluster.broker_epoch == 5 and broker.state is BrokerState.STARTING
        assert all(one.want_fence and one.current_metadata_offset == 7 for one in cluster.heartbeats)

        broker.request_unfencing()
        await broker.until_unfenced()
        assert broker.state is BrokerState.RUNNING and not cluster.heartbeats[-1].want_fence
        await broker.shut_down()
        assert cluster.heartbeats[-1].want_shut_down
        broker.stop()
        await running

        assert broker.state is BrokerState.STOPPED

    play(scene())


def test_a_registration_waits_until_the_session_of_another_process_ends() -> None:
    refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 2

    def answer(command: Any) -> Any:
        if refusals:
            raise KafkaError(refusals.pop(), "Another broker is registered with that broker id.")
        return accept(command)

    async def scene() -> None:
        cluster = Cluster(answer)
        await lifecycle(cluster).register()
        assert len(cluster.sent) == 3

    play(scene())


def test_a_registration_that_cannot_succeed_fails_at_once() -> None:
    def answer(command: Any) -> Any:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The broker is too old.")

    async def scene() -> None:
        cluster = Cluster(answer)
        with pytest.raises(KafkaError, match="too old"):
            await lifecycle(cluster).register()
        assert len(cluster.sent) == 1

    play(scene())


def test_a_broker_without_answers_counts_itself_as_fenced_by_its_own_clock() -> None:
    is_cut = False

    def answer(command: Any) -> Any:
        if is_cut:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return accept(command)

    async def scene() -> None:
        nonlocal is_cut
        cluster = Cluster(answer)
        reported: list[bool] = []
        broker = lifecycle(cluster, session_timeout_ms=20, on_cut_off=reported.append)
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()
        assert not broker.is_cut_off

        is_cut = True
        await asyncio.sleep(0.04)
        assert broker.is_cut_off
        is_cut = False
        await asyncio.sleep(0.01)

        assert not broker.is_cut_off and broker.state is BrokerState.RUNNING
        assert reported == [True, False]
        broker.stop()
        await running

    play(scene())


def test_a_broker_that_was_fenced_asks_to_be_unfenced() -> None:
    fenced = [False]

    def answer(command: Any) -> Any:
        if isinstance(command, BrokerHeartbeat):
            return BrokerHeartbeatReply(is_caught_up=True, is_fenced=fenced[0])
        return accept(command)

    async def scene() -> None:
        broker = lifecycle(Cluster(answer))
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()
        fenced[0] = True
        await asyncio.sleep(0.01)
        assert broker.state is BrokerState.WAITING

        fenced[0] = False
        await asyncio.sleep(0.01)

        assert broker.state is BrokerState.RUNNING
        broker.stop()
        await running

    play(scene())


def test_a_broker_whose_id_another_process_registered_ends_the_node() -> None:
    def answer(command: Any) -> Any:
        if isinstance(command, BrokerHeartbeat):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        return accept(command)

    async def scene() -> None:
        cluster = Cluster(answer)
        broker = lifecycle(cluster)
        await broker.register()
        other = BrokerImage(3, 9, b"another process.", {}, None, False, False, (), {})
        cluster.image = MetadataImage(version=7, brokers={3: other})

        with pytest.raises(KafkaError, match="Another process"):
            await broker.run()

    play(scene())


def test_a_broker_that_was_unregistered_registers_again() -> None:
    def answer(command: Any) -> Any:
        registered = sum(isinstance(one, RegisterBroker) for one in cluster.sent)
        if isinstance(command, BrokerHeartbeat) and registered < 2:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
        return accept(command)

    async def scene() -> None:
        broker = lifecycle(cluster)
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()
        broker.stop()
        await running

    cluster = Cluster(answer)
    play(scene())


def test_a_node_stops_even_if_no_broker_can_take_over() -> None:
    def answer(command: Any) -> Any:
        if isinstance(command, BrokerHeartbeat) and command.want_shut_down:
            return BrokerHeartbeatReply(is_in_controlled_shutdown=True)
        return accept(command)

    async def scene() -> None:
        broker = lifecycle(Cluster(answer))
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()
        began_s = asyncio.get_running_loop().time()

        await broker.shut_down()
        broker.stop()
        await running

        assert broker.state is BrokerState.STOPPED
        assert asyncio.get_running_loop().time() - began_s > SHUTDOWN_TIMEOUT_S

    play(scene())


def test_a_second_request_to_stop_waits_for_the_same_end() -> None:
    may_stop = False

    def answer(command: Any) -> Any:
        if isinstance(command, BrokerHeartbeat) and command.want_shut_down:
            return BrokerHeartbeatReply(is_in_controlled_shutdown=True, should_shut_down=may_stop)
        return accept(command)

    async def scene() -> None:
        nonlocal may_stop
        broker = lifecycle(Cluster(answer))
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()

        stopping = [asyncio.ensure_future(broker.shut_down()) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in stopping)
        may_stop = True
        async with asyncio.timeout(1.5):
            for one in stopping:
                await one
            await broker.shut_down()
        broker.stop()
        await running

    play(scene())


def lose_controller(command: Any) -> Any:
    """Answer as a controller that is gone once a broker wants to shut down."""
    if isinstance(command, BrokerHeartbeat) and command.want_shut_down:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody leads")
    return accept(command)


async def run_and_stop(broker: BrokerLifecycle, gives_up: Callable[[], bool] = lambda: False) -> None:
    """Run a broker until it is unfenced, and then stop it."""
    await broker.register()
    broker.request_unfencing()
    running = asyncio.ensure_future(broker.run())
    await broker.until_unfenced()
    async with asyncio.timeout(1.5):
        await broker.shut_down(gives_up)
    broker.stop()
    await running


def test_a_broker_whose_fellow_voters_stopped_waits_for_no_controller() -> None:
    answers = iter([False, True])

    async def is_gone() -> bool:
        return next(answers)

    play(run_and_stop(lifecycle(Cluster(lose_controller), is_quorum_gone=is_gone)))

    assert next(answers, None) is None, "it checks until enough of them are gone"


def test_a_broker_that_gives_up_does_not_wait_for_a_controller() -> None:
    play(run_and_stop(lifecycle(Cluster(lose_controller)), gives_up=lambda: True))


STARTING, WAITING, RUNNING, SHUTTING_DOWN, STOPPED = BrokerState
LEGAL = {
    *((STARTING, after) for after in (WAITING, STOPPED)),
    *((WAITING, after) for after in (RUNNING, SHUTTING_DOWN, STOPPED)),
    *((RUNNING, after) for after in (WAITING, SHUTTING_DOWN, STOPPED)),
    (SHUTTING_DOWN, STOPPED),
}


def test_the_table_of_moves_is_this_one() -> None:
    assert {(before, after) for before, states in MOVES.items() for after in states} == LEGAL
    assert set(MOVES) == set(BrokerState)


def test_a_new_controller_gets_a_heartbeat_at_once() -> None:
    async def scene() -> None:
        cluster = Cluster(accept)
        broker = lifecycle(cluster, heartbeat_interval_ms=60_000)
        await broker.register()
        broker.request_unfencing()
        running = asyncio.ensure_future(broker.run())
        await broker.until_unfenced()
        await asyncio.sleep(0.01)
        before = len(cluster.heartbeats)

        broker.controller_changed()
        await asyncio.sleep(0.01)

        assert len(cluster.heartbeats) == before + 1
        broker.stop()
        await running

    play(scene())
