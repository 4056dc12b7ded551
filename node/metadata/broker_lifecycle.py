"""Registers this broker with the controller, sends its heartbeats, and hands over its leaders before a stop.

The broker registers when its metadata have caught up, and renews its session by heartbeats. It stays fenced
until its logs are open. If no heartbeat was answered for `broker.session.timeout.ms`, other brokers may lead
its partitions; the broker then counts itself as fenced, by its own clock, and accepts no records. Before it
stops, it asks the controller to move the leadership of its partitions, and waits until that is done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.commands import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker
from ottla.metadata_raft.image import Endpoint, endpoint_records
from ottla.metadata_raft.records import BrokerFeature
from ottla.node.clock import Clock
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.metadata.quorum_contact import QuorumContact
from ottla.node.work.pause import wait_at_most

# The heartbeat interval while a change is expected (an end of fencing, or moves of leaders); also the
# interval at which a shutdown checks its conditions.
FAST_HEARTBEAT_INTERVAL_S: Final = 0.05
REGISTRATION_RETRY_S: Final = 0.1
# Leaders move within a second; a controller that cannot be reached must not keep a node from stopping.
SHUTDOWN_TIMEOUT_S: Final = 10.0
# Longer than an election takes.
CONTROLLER_SILENCE_S: Final = 2.0
# A live controller answers sooner. After this time the broker checks if a majority of the voters still runs.
QUORUM_CHECK_DELAY_S: Final = 0.15

log = logging.getLogger(__name__)


class BrokerState(Enum):
    """The state of this broker in its lifecycle."""

    STARTING = "starting"  # it is not registered, or its logs are not open yet
    WAITING = "waiting"  # its logs are open, but the controller keeps it fenced
    RUNNING = "running"
    SHUTTING_DOWN = "shutting down"
    STOPPED = "stopped"


# Every legal move; `_move` asserts it.
MOVES: Final[Mapping[BrokerState, frozenset[BrokerState]]] = {
    BrokerState.STARTING: frozenset({BrokerState.WAITING, BrokerState.STOPPED}),
    BrokerState.WAITING: frozenset({BrokerState.RUNNING, BrokerState.SHUTTING_DOWN, BrokerState.STOPPED}),
    # To WAITING: it was fenced while it was cut off, and waits to be unfenced.
    BrokerState.RUNNING: frozenset({BrokerState.WAITING, BrokerState.SHUTTING_DOWN, BrokerState.STOPPED}),
    BrokerState.SHUTTING_DOWN: frozenset({BrokerState.STOPPED}),
    BrokerState.STOPPED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The facts that a broker registers; `incarnation_id` is the id of this process."""

    broker_id: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    rack: str | None
    log_dirs: Sequence[bytes]
    features: Mapping[str, tuple[int, int]]
    previous_broker_epoch: int = -1  # of the process that ended cleanly before this one
    page_cache_id: bytes = ZERO_UUID
    peer_listener: str = ""  # the listener that serves other nodes
    controllers: Mapping[str, Endpoint] = field(default_factory=dict)  # its listeners of the controller

    def command(self) -> RegisterBroker:
        return RegisterBroker(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            listeners=endpoint_records(self.listeners),
            rack=self.rack,
            log_dirs=list(self.log_dirs),
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self.features.items())
            ],
            previous_broker_epoch=self.previous_broker_epoch,
            page_cache_id=self.page_cache_id,
            peer_listener=self.peer_listener,
            controller_listeners=endpoint_records(self.controllers),
        )


class BrokerLifecycle:
    """The state of this broker. Used on the node's event loop; `run` is its task."""

    def __init__(
        self,
        *,
        metadata: MetadataRuntime,
        registration: Registration,
        contact: QuorumContact,
        clock: Clock,
        heartbeat_interval_ms: int,
        registration_timeout_ms: int,
        on_cut_off: Callable[[bool], None] = lambda _: None,
        leader_load: Callable[[], int] = lambda: 0,
        is_quorum_gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """`contact` has the time after which a controller that does not answer has fenced this broker.

        `leader_load` returns the bytes per second that this broker serves as a leader. `is_quorum_gone`
        returns True if so many voters have stopped that the quorum cannot have a leader.
        """
        self.state = BrokerState.STARTING
        self._metadata = metadata
        self._registration = registration
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._contact = contact
        self._clock = clock
        self._registration_timeout_s = registration_timeout_ms / 1000
        self._wakes = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._on_cut_off = on_cut_off
        self._leader_load = leader_load
        self._is_quorum_gone = is_quorum_gone
        self._session_end: asyncio.TimerHandle | None = None
        self._heard_at = 0.0  # when the controller last answered, by the loop's clock
        self.is_cut_off = False  # other brokers may lead this broker's partitions without its knowledge

    def _move(self, state: BrokerState) -> None:
        assert state in MOVES[self.state], f"a broker that is {self.state.value} cannot be {state.value}"
        self.state = state
        self._wakes.set()

    # ---- registration and shutdown -------------------------------------------------------------------------

    async def register(self) -> None:
        """Register this broker, and return when the metadata of this node show it.

        Waits until the session of another process with the same id ends. If that takes longer than
        `initial.broker.registration.timeout.ms`, the last error is raised.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._registration_timeout_s
        command = self._registration.command()
        while True:
            sent_at = loop.time()
            try:
                reply = await self._metadata.submit(command, int((deadline - sent_at) * 1000))
                break
            except KafkaError as error:
                is_hopeless = error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION
                if is_hopeless or loop.time() + REGISTRATION_RETRY_S >= deadline:
                    raise
                log.info(
                    "Another process is still registered as broker %d: waiting until its session ends.",
                    command.broker_id,
                )
            await asyncio.sleep(REGISTRATION_RETRY_S)
        self._metadata.broker_epoch = reply.broker_epoch
        self._renew_session(sent_at)

    def _renew_session(self, sent_at: float) -> None:
        """Renew the session from the time when the answered request was sent.

        The controller counts from the arrival of the request, so the session that it keeps ends later.
        """
        if self._session_end is not None:
            self._session_end.cancel()
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        self._contact.heard(sent_at, loop.time(), self._clock.now_ms())
        self._session_end = loop.call_at(self._contact.ends_at_s, self._set_cut_off, True)
        self._set_cut_off(False)

    def _set_cut_off(self, is_cut_off: bool) -> None:
        if is_cut_off is not self.is_cut_off:
            self.is_cut_off = is_cut_off
            if is_cut_off:
                log.warning(
                    "The controller has not answered for %g s: this broker accepts no records until it does.",
                    self._contact.limit_s,
                )
            self._on_cut_off(is_cut_off)

    def request_unfencing(self) -> None:
        """Ask the controller, from now on, to unfence this broker: its logs are open."""
        self._move(BrokerState.WAITING)

    def heartbeat_now(self) -> None:
        """Send a heartbeat at once.

        It carries the metadata offset that a broker in shutdown may be waiting for.
        """
        self._wakes.set()

    async def until_unfenced(self) -> None:
        """Wait until the controller has unfenced this broker; `run` must be running."""
        await self._unfenced.wait()

    async def shut_down(self, gives_up: Callable[[], bool] = lambda: False) -> None:
        """Have other brokers lead this broker's partitions; return when they do, or if it takes too long.

        A second call waits for the same end.
        """
        if self.state in (BrokerState.WAITING, BrokerState.RUNNING):
            self._move(BrokerState.SHUTTING_DOWN)
        elif self.state is not BrokerState.SHUTTING_DOWN:
            return
        loop = asyncio.get_running_loop()
        began = self._heard_at = loop.time()
        while not (self._may_stop.is_set() or gives_up()):
            if loop.time() - began > SHUTDOWN_TIMEOUT_S:
                log.warning(
                    "The leadership of this broker was not handed over completely within %g s.",
                    SHUTDOWN_TIMEOUT_S,
                )
                return
            silence_s = loop.time() - self._heard_at
            if silence_s > CONTROLLER_SILENCE_S:
                log.warning(
                    "The controller has not answered for %g s: leadership cannot be handed over.",
                    CONTROLLER_SILENCE_S,
                )
                return
            if silence_s > QUORUM_CHECK_DELAY_S and self._is_quorum_gone and await self._is_quorum_gone():
                log.info(
                    "Too many voters have stopped for the quorum to have a leader: "
                    "leadership cannot be handed over."
                )
                return
            try:
                async with asyncio.timeout(FAST_HEARTBEAT_INTERVAL_S):
                    await self._may_stop.wait()
            except TimeoutError:
                pass

    def controller_changed(self) -> None:
        """Send a heartbeat at once: a new controller has received none, and may take this broker for dead."""
        self._wakes.set()

    def stop(self) -> None:
        """Stop sending heartbeats."""
        if self._session_end is not None:
            self._session_end.cancel()
        if self.state is not BrokerState.STOPPED:
            self._move(BrokerState.STOPPED)

    # ---- heartbeats ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send heartbeats until `stop`.

        DUPLICATE_BROKER_REGISTRATION, which ends the node, if another process registered with this broker id.
        """
        while self.state is not BrokerState.STOPPED:
            await self._heartbeat()
            pause_s = self._heartbeat_interval_s
            if self.state not in (BrokerState.STARTING, BrokerState.RUNNING):
                pause_s = min(pause_s, FAST_HEARTBEAT_INTERVAL_S)
            await wait_at_most(self._wakes, pause_s)

    async def _heartbeat(self) -> None:
        sent_at = asyncio.get_running_loop().time()
        state = self.state
        command = BrokerHeartbeat(
            broker_id=self._registration.broker_id,
            broker_epoch=self._metadata.broker_epoch,
            current_metadata_offset=self._metadata.image.version,
            want_fence=state is BrokerState.STARTING,
            want_shut_down=state is BrokerState.SHUTTING_DOWN,
            leader_load=self._leader_load(),
        )
        try:
            reply = await self._metadata.submit(command, int(self._contact.limit_s * 1000))
        except KafkaError as error:
            await self._heartbeat_failed(error)
            return
        self._renew_session(sent_at)
        # The answer to a heartbeat of an earlier state says nothing about the present one.
        if state is self.state:
            self._heartbeat_answered(reply)

    def _heartbeat_answered(self, reply: BrokerHeartbeatReply) -> None:
        match self.state:
            case BrokerState.WAITING if not reply.is_fenced:
                self._unfenced.set()
                self._move(BrokerState.RUNNING)
            case BrokerState.RUNNING if reply.is_fenced:
                log.warning("The controller has fenced this broker: it leads nothing until it is unfenced.")
                self._move(BrokerState.WAITING)
            case BrokerState.SHUTTING_DOWN if reply.should_shut_down:
                self._may_stop.set()
            case _:
                pass

    async def _heartbeat_failed(self, error: KafkaError) -> None:
        if error.code not in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            log.warning("A heartbeat of this broker failed, and the broker tries again: %s", error)
            return
        known = self._metadata.image.brokers.get(self._registration.broker_id)
        if known is not None and known.incarnation_id != self._registration.incarnation_id:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"Another process has registered as broker {self._registration.broker_id}, so "
                "this process shuts down.",
            )
        log.warning("This broker is no longer registered (%s), and registers again.", error)
        try:
            await self.register()
        except KafkaError as failure:
            log.warning("The registration of this broker failed, and the broker tries again: %s", failure)
