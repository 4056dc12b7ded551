"""The lifecycle of a node that is only a controller: it waits for a leader, and never registers."""

import asyncio
import random
from typing import cast

from ottla.node.metadata.broker_lifecycle import BrokerState
from ottla.node.metadata.controller_lifecycle import ControllerLifecycle
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.quorum_contact import QuorumContact
from tests.simulation.virtual_loop import VirtualLoop


class Quorum:
    """The metadata of a node whose quorum has no leader until a test sets one."""

    controller_id = -1


class Clock:
    """A wall clock that stands still."""

    def now_ms(self) -> int:
        return 1_000


def made(quorum: Quorum, contact: QuorumContact) -> ControllerLifecycle:
    return ControllerLifecycle(metadata=cast(MetadataRuntime, quorum), contact=contact, clock=Clock())


def test_a_controller_starts_with_a_leader_and_is_cut_off_after_a_time_without_one() -> None:
    async def scene() -> None:
        loop, quorum, contact = asyncio.get_running_loop(), Quorum(), QuorumContact(0.2)
        contact.begin(loop.time() - 1, 0)
        lifecycle = made(quorum, contact)
        starting = loop.create_task(lifecycle.register())
        await asyncio.sleep(0)
        assert not starting.done() and contact.cut_off_since_ms(loop.time()) is not None

        quorum.controller_id = 2
        lifecycle.controller_changed()
        await starting
        assert contact.cut_off_since_ms(loop.time()) is None

        lifecycle.request_unfencing()
        await lifecycle.until_unfenced()
        running = loop.create_task(lifecycle.run())
        quorum.controller_id = -1
        lifecycle.controller_changed()
        while contact.cut_off_since_ms(loop.time()) is None:
            await asyncio.sleep(0.01)
        assert lifecycle.state is BrokerState.RUNNING
        quorum.controller_id = 1
        lifecycle.controller_changed()
        while contact.cut_off_since_ms(loop.time()) is not None:
            await asyncio.sleep(0.01)

        await lifecycle.shut_down()
        assert lifecycle.state is BrokerState.SHUTTING_DOWN
        lifecycle.stop()
        await running
        assert lifecycle.state is BrokerState.STOPPED

    VirtualLoop(random.Random(1)).run(scene(), limit_s=60)
