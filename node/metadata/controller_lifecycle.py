"""The lifecycle of a node that is only a controller (`process.roles=controller`).

Such a node neither registers nor sends heartbeats. A broker learns from their answers that the metadata
quorum has a leader; this node learns it from its own voter.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ottla.node.clock import Clock
from ottla.node.metadata.broker_lifecycle import BrokerState
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.quorum_contact import QuorumContact
from ottla.node.work.pause import until_next, wait_at_most

# How often the leader is checked; a new one wakes the node at once.
LOOK_S: Final = 0.5


class ControllerLifecycle:
    """The state of a controller-only node, with the methods of a `BrokerLifecycle`; `run` is its task."""

    def __init__(self, *, metadata: MetadataRuntime, contact: QuorumContact, clock: Clock) -> None:
        self.state = BrokerState.STARTING
        self._metadata = metadata
        self._contact = contact
        self._clock = clock
        self._wakes = asyncio.Event()

    async def register(self) -> None:
        """Wait until the quorum has a leader, without a timeout: the other voters may be down."""
        while not self._hears_leader():
            await wait_at_most(self._wakes, until_next(LOOK_S))

    def _hears_leader(self) -> bool:
        if self._metadata.controller_id < 0:
            return False
        now = asyncio.get_running_loop().time()
        self._contact.heard(now, now, self._clock.now_ms())
        return True

    def request_unfencing(self) -> None:
        """Count as running: the node has all its parts."""
        self.state = BrokerState.RUNNING

    async def until_unfenced(self) -> None:
        """Return at once: only brokers are fenced."""

    def heartbeat_now(self) -> None:
        """Do nothing: only brokers report how far they have applied the metadata."""

    def controller_changed(self) -> None:
        """Check at once for a leader of the quorum."""
        self._wakes.set()

    async def shut_down(self, gives_up: Callable[[], bool] = lambda: False) -> None:
        """Begin to stop; this node leads no partitions that other brokers would have to take over."""
        if self.state is not BrokerState.STOPPED:
            self.state = BrokerState.SHUTTING_DOWN

    def stop(self) -> None:
        """Stop looking for a leader."""
        self.state = BrokerState.STOPPED
        self._wakes.set()

    async def run(self) -> None:
        """Record contact while the quorum has a leader, until `stop`."""
        while self.state is not BrokerState.STOPPED:
            self._hears_leader()
            await wait_at_most(self._wakes, until_next(LOOK_S))
