"""The hosts of a simulated cluster, and the brokers that run on them."""

import asyncio
import random
import zlib
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.broker import Broker
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.start import world as node_world
from tests.simulation.virtual_disk import VirtualDisk, VirtualStorage
from tests.simulation.virtual_loop import PROCESS, Bug, Process, SimulationError, VirtualLoop
from tests.simulation.virtual_network import Host, Network

# Returns the world of a process as another release would have it.
Release = Callable[[BrokerConfig, node_world.World], node_world.World]

START_MS: Final = 1_700_000_000_000
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


class HostClock:
    """The wall clock of a host, which a fault can move."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.offset_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.offset_ms + int(self._loop.now_s * 1000)


class VirtualNode:
    """The host of a broker: its disk and clock stay, while its processes start and end."""

    def __init__(self, world: "World", node_id: int, settings: Mapping[str, str]) -> None:
        self.world = world
        self.node_id = node_id
        self.host: Host = world.network.add_host(f"node-{node_id}")
        self.clock = HostClock(world.loop)
        self.storage = VirtualStorage(random.Random(f"disk {world.seed} {node_id}"), now_ms=self.clock.now_ms)
        self.storage.trace = lambda kind, path: world.trace(f"disk {kind}", f"{self.host.name} {path}")
        self.settings = dict(settings)
        self.process: Process | None = None
        self.broker: Broker | None = None
        self.incarnation = 0
        self.is_serving = False
        self.is_stopping = False
        self.needs_restart = False  # its disk has failed, and the broker does not use it until a restart
        self.exits: list[str] = []  # the errors with which its processes ended by themselves
        self.release: Release = lambda config, world: world  # that its processes run
        self._stop: asyncio.Event | None = None
        self._broker_task: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self.process is not None and not self.process.is_dead

    @property
    def is_controller(self) -> bool:
        """Return True if the node serves, and leads the metadata quorum as far as it knows."""
        return (
            self.is_alive
            and self.is_serving
            and self.broker is not None
            and self.broker.quorum_services.metadata.is_controller
        )

    def start(self) -> None:
        """Start a process, which ends by `stop`, `kill`, `lose_power` or an error of its own."""
        assert not self.is_alive
        if not self.host.is_up:
            self.world.network.host_returns(self.host)
        self.incarnation += 1
        self.needs_restart = self.is_stopping = False
        process = self.process = Process(self.host.name, self.incarnation)
        self.world.trace("start", repr(process))
        self._broker_task = self.world.spawn(process, self._run_broker(process))

    async def _run_broker(self, process: Process) -> None:
        chance = random.Random(f"chance {self.world.seed} {process!r}")
        config = parse_config(self.settings)
        self._stop = asyncio.Event()
        world = node_world.World(
            clock=self.clock,
            disk=VirtualDisk(self.storage, process, self.world.loop.wait_for_disk),
            chance=chance,
            unique=chance.randbytes,
        )
        broker = self.broker = Broker(config, self.release(config, world))
        try:
            await broker.start()
            self.is_serving = True
            self.world.trace("serving", repr(process))
            try:
                await self._stop.wait()
            finally:
                self.is_serving = False
                await broker.stop()
        except AssertionError as error:
            raise SimulationError(f"{process!r} {type(error).__name__}: {error}") from error
        except Exception as error:
            # A node may end with an error of its disk.
            if not may_come_from_a_disk(error):
                self.world.loop.call_exception_handler({"message": "the node has ended", "exception": error})
            if not process.is_dead:
                self.exits.append(f"{error!r}")
                self.world.trace("exit", f"{process!r} {error!r}")
        self._end(process, is_silent=False)

    def stop(self) -> "asyncio.Task[None]":
        """Send SIGTERM; the returned task ends with the process."""
        assert self._broker_task is not None
        if self._stop is not None:
            self.world.trace("stop", repr(self.process))
            self.is_stopping = True
            self._stop.set()
        return self._broker_task

    def kill(self) -> None:
        """Send SIGKILL: the page cache stays, and the kernel closes all files and sockets."""
        assert self.process is not None
        self.world.trace("kill", repr(self.process))
        self._end(self.process, is_silent=False)

    def lose_power(self) -> None:
        """Cut the power of the host, whose disk loses writes that are not durable."""
        self.world.trace("power", self.host.name)
        self.host.is_up = False
        if self.process is not None:
            self._end(self.process, is_silent=True)
        self.storage.lose_power()

    def _end(self, process: Process, *, is_silent: bool) -> None:
        if process.is_dead:
            return
        process.is_dead = True
        self.is_serving = False
        self.world.network.end_process(process, is_silent=is_silent)
        # Later, as the code that runs now may belong to that process.
        self.world.network._later(0.0, self.world.loop.kill, process)

    def pause(self) -> None:
        """Send SIGSTOP, which also stands for a long pause of the machine."""
        if self.process is not None and self.is_alive:
            self.world.trace("pause", repr(self.process))
            self.world.loop.pause(self.process)

    def resume(self) -> None:
        if self.process is not None and self.is_alive:
            self.world.trace("resume", repr(self.process))
            self.world.loop.resume(self.process)


class World:
    """The state of one run: loop, network, nodes and clients."""

    def __init__(self, seed: int, *, show: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.loop = VirtualLoop(random.Random(f"loop {seed}"))
        self.network = Network(self.loop, random.Random(f"network {seed}"))
        self.network.trace = self.trace
        self.nodes: list[VirtualNode] = []
        self.clients: list[Process] = []
        self.show = show
        self.lines: list[str] | None = None
        self.last_exception = ""  # logged by a node
        self.compacted: frozenset[str] = frozenset()  # topics whose replicas may keep different batches
        self.digest = 0
        self.events = 0

    def trace(self, kind: str, detail: str) -> None:
        """Record an event. Each run of a seed has the same events at the same times."""
        self.events += 1
        self.digest = zlib.crc32(f"{self.loop.now_s:.9f} {kind} {detail}".encode(), self.digest)
        if self.lines is not None:
            self.lines.append(f"{self.loop.now_s:12.6f} {kind} {detail}")
        if self.show:
            print(f"{self.loop.now_s:12.6f} {kind} {detail}")

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a task of a process."""
        return self.loop.create_task(work, context=context_of(process))

    def unexplained(self, error: KafkaError, client: str) -> SimulationError:
        """Return the failure of a client that received an error which no fault explains."""
        kind = Bug if error.code is ErrorCode.UNKNOWN_SERVER_ERROR else SimulationError
        return kind(f"{client} received {error}\n{self.last_exception}")

    def add_client(self, name: str) -> Process:
        """Add a host with a client program."""
        self.network.add_host(name)
        process = Process(name)
        self.clients.append(process)
        return process

    def close(self) -> None:
        """End all that is left, so that the garbage collector finds nothing to warn of."""
        processes = [*self.clients, *(node.process for node in self.nodes if node.process is not None)]
        for process in processes:
            process.is_dead = True
        for process in processes:
            self.loop.kill(process)
        self.loop.close()


def context_of(process: Process) -> Context:
    """Return a context in which tasks and sockets belong to the process."""
    context = copy_context()
    context.run(PROCESS.set, process)
    return context


def may_come_from_a_disk(error: BaseException) -> bool:
    """Return True if a faulty disk explains the error, with which a node may then end."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(may_come_from_a_disk, error.exceptions))
    return isinstance(error, OSError | KafkaError)
