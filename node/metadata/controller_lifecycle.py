"""The life of a node that is only a controller (`process.roles=controller`).

It is no broker, so it neither registers nor sends heartbeats: what a broker learns from their answers, that
somebody leads the metadata quorum, it sees by its own voter.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.node.clock import Clock
from ottla.node.metadata.broker_lifecycle import BrokerState
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.quorum_contact import QuorumContact
from ottla.node.work.pause import waits_at_most

# How often it is looked whether somebody leads; a new leader is told at once.
LOOK_S: Final = 0.5


class ControllerLifecycle:
    """Lives on the node's event loop; `run` is its task. It has the methods of a `BrokerLifecycle`."""

    def __init__(self, *, metadata: MetadataRuntime, contact: QuorumContact, clock: Clock) -> None:
        self.state = BrokerState.STARTING
        self._metadata = metadata
        self._contact = contact
        self._clock = clock
        self._wakes = asyncio.Event()

    async def register(self) -> None:
        """Wait, for as long as it takes, until somebody leads the quorum: the other voters may be down."""
        while not self._hears_leader():
            await waits_at_most(self._wakes, LOOK_S)

    def _hears_leader(self) -> bool:
        if self._metadata.controller_id < 0:
            return False
        now = asyncio.get_running_loop().time()
        self._contact.heard(now, now, self._clock.now_ms())
        return True

    def logs_are_open(self) -> None:
        """Take notice that the node has all its parts."""
        self.state = BrokerState.RUNNING

    async def until_unfenced(self) -> None:
        """Return at once: only brokers are fenced."""

    def report_soon(self) -> None:
        """Do nothing: only brokers report how far they have applied the metadata."""

    def controller_changed(self) -> None:
        """Look whether somebody leads the quorum."""
        self._wakes.set()

    async def shut_down(self, gives_up: Callable[[], bool] = lambda: False) -> None:
        """Begin to stop; no partitions are led here that others would have to take over."""
        if self.state is not BrokerState.STOPPED:
            self.state = BrokerState.SHUTTING_DOWN

    def stop(self) -> None:
        """Stop looking for a leader."""
        self.state = BrokerState.STOPPED
        self._wakes.set()

    async def run(self) -> None:
        """Note again and again whether somebody leads, until `stop`."""
        while self.state is not BrokerState.STOPPED:
            self._hears_leader()
            await waits_at_most(self._wakes, LOOK_S)
