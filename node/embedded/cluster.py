"""A cluster within one process, for tests and for watching a cluster fail.

    with Cluster(nodes=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(0)

Every node has its own thread, event loop and directory; clients reach it over loopback, as any other cluster.
The methods do to a node what happens to nodes elsewhere: `kill` leaves its files as they are, `pause` stops
it in the middle of its work, `partition` cuts off all traffic between nodes.
"""

import asyncio
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.broker import Broker
from ottla.node.embedded.network import Network, NodeLoop, VoterLoop, call
from ottla.node.embedded.secured_access import Library, SecuredAccess, client_config
from ottla.node.secure_setup.node_keys import LOCAL_HOSTS
from ottla.node.secure_setup.secure_directory import complete
from ottla.node.settings.config import parse_config, refuse_unknown
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.rest_settings import REST_LISTENERS
from ottla.node.settings.secure_settings import (
    ADMINISTRATOR,
    CLIENT_LISTENER,
    NODE_LISTENER,
    SECURE,
    SECURE_DIR,
    SecureFiles,
)
from ottla.node.start.world import World

HOST: Final = "127.0.0.1"
IDENTITY_FILE: Final = "cluster.properties"
SECURE_FOLDER: Final = "secure"
MAX_VOTERS: Final = 5  # as in `ottla cluster up`
THREAD_TIMEOUT_S: Final = 60.0
# Below Linux's ephemeral ports, so that the port of a dead node stays free until it comes back: neither
# another program's client gets it, nor a client that dials this very port and so connects to itself.
PORTS: Final = range(12_000, 32_000)
# Settings that make a test cluster fast; `overrides` take precedence.
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(slots=True)
class _Node:
    """One node and the thread that it runs in; `thread` is None while the node is dead."""

    node_id: int
    texts: Mapping[str, str]
    network: Network
    thread: threading.Thread | None = None
    broker: Broker | None = None
    loops: list[asyncio.AbstractEventLoop] = field(default_factory=list)
    is_ending: bool = False
    is_killed: bool = False
    hands_over: bool = True  # its leaderships, when it is stopped
    problem: BaseException | None = None
    _main: asyncio.Task[None] | None = None
    _stop: asyncio.Event | None = None
    _is_ready: threading.Event = field(default_factory=threading.Event)
    _resume: threading.Event | None = None
    # A thread can be joined only once it is started, and the node may be ended before that.
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start the thread; `wait_until_ready` returns when the node serves."""
        self.is_ending, self.is_killed, self.problem = False, False, None
        self._main, self._stop = None, None
        self._is_ready = threading.Event()
        with self._starting:
            self.thread = threading.Thread(target=self._run, name=f"ottla-node-{self.node_id}", daemon=True)
            self.thread.start()

    def wait_until_ready(self) -> None:
        """Wait until the node serves; raise its error if it cannot, RuntimeError if it was ended."""
        if not self._is_ready.wait(THREAD_TIMEOUT_S):
            raise TimeoutError(f"node {self.node_id} is not ready after {THREAD_TIMEOUT_S:.0f} s")
        if self.problem is not None:
            raise self.problem
        if self._main is None or self._main.cancelled():
            raise RuntimeError(f"node {self.node_id} stopped before it was ready")

    def stop(self, *, hands_over: bool = True) -> None:
        """Stop the node as SIGTERM does; no effect if it is dead."""
        self.hands_over = hands_over
        self.resume()
        self._end()

    def kill(self) -> None:
        """Kill the node as SIGKILL does: its files stay as they are, its peers see their connections end."""
        self.is_killed = True
        self.resume()
        self._end()

    def pause(self) -> None:
        """Pause the node as SIGSTOP does: its loops stand still, its sockets stay open."""
        if self._resume is None and self.thread is not None:
            self._resume = threading.Event()
            for loop in self.loops:
                call(loop, self._resume.wait)

    def resume(self) -> None:
        """Resume the node as SIGCONT does."""
        if self._resume is not None:
            self._resume.set()
            self._resume = None

    def _end(self) -> None:
        with self._starting:
            thread = self.thread
        if thread is None:
            return
        self.is_ending = True
        if self.loops:
            call(self.loops[0], self._ask_to_end)
        thread.join(THREAD_TIMEOUT_S)
        if thread.is_alive():
            raise TimeoutError(f"node {self.node_id} did not stop within {THREAD_TIMEOUT_S:.0f} s")
        self.thread, self.broker = None, None
        if self.problem is not None and not self.is_killed:
            raise self.problem

    # ---- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._make_loop) as runner:
                runner.run(self._live())
        except asyncio.CancelledError:  # it was ended while it started
            return
        except BaseException as problem:  # raised again in the caller's thread
            self.problem = problem
        finally:
            self.loops.clear()
            self._is_ready.set()

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        return self._keep(NodeLoop())

    def _make_voter_loop(self) -> asyncio.AbstractEventLoop:
        return self._keep(VoterLoop())

    def _keep(self, loop: NodeLoop | VoterLoop) -> asyncio.AbstractEventLoop:
        loop.network, loop.node_id = self.network, self.node_id
        self.loops.append(loop)
        return loop

    def _ask_to_end(self) -> None:
        """Stop the node; cancel a start, which may wait for nodes that will never come."""
        if self._stop is not None and self._main is not None:
            self._stop.set()
            if not self._is_ready.is_set():
                self._main.cancel()

    async def _live(self) -> None:
        self._main, self._stop = asyncio.current_task(), asyncio.Event()
        if self.is_ending:
            raise asyncio.CancelledError  # it was ended before the main task could be cancelled
        self.broker = Broker(
            parse_config(dict(self.texts)),
            World(voter_loop=self._make_voter_loop, rest_loop=self._make_loop),
        )
        await self.broker.start()
        self._is_ready.set()
        await self._stop.wait()
        if self.is_killed:
            await self.broker.abandon()
        else:
            await self.broker.stop(hands_over=self.hands_over)


class Cluster:
    """A cluster of `nodes` brokers, up to five of them voters.

    Use it with `with`, `async with`, or `start` and `stop`.

    `data` keeps the directories of the nodes, and the identity and ports with which a later cluster in the
    same place continues; by default they are temporary. Topics have a replica on each of up to three nodes
    unless they are created with another number. `overrides` are settings of all nodes; an unknown one is a
    KafkaError that names the nearest. With `rest` each node serves the REST API, on a port of its own that is
    in `rest_urls`. With `secure` the cluster is secured as by `ottla start --secure`: clients log in over
    TLS, with the settings of `client_config`, as the administrator or as users of `add_user`. The methods
    block until they are done; the asynchronous context does not block the loop.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        data: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        rest: bool = False,
        secure: bool = False,
    ) -> None:
        if nodes < 1:
            raise ValueError("a cluster needs at least one node")
        refuse_unknown(overrides or ())
        self._temporary = tempfile.mkdtemp(prefix="ottla-") if data is None else None
        self._network = Network()
        directory = Path(self._temporary or data or "")
        identity = (
            _new_identity(nodes, secure)
            if data is None
            else _kept_identity(data / IDENTITY_FILE, nodes, secure)
        )
        self.cluster_id = identity.cluster_id
        # A secured cluster has ports for nodes, after those of the controllers.
        clients, controllers, peers = (
            identity.ports[begin : begin + nodes] for begin in (0, nodes, 2 * nodes)
        )
        voters = nodes if nodes <= 3 else 3 if nodes == 4 else MAX_VOTERS
        shared = {
            **QUICK,
            # A topic that a client creates by writing to it survives the loss of a node, too.
            "default.replication.factor": str(min(nodes, 3)),
            "cluster.id": identity.cluster_id,
            "cluster.secret": identity.secret,
            "controller.quorum.voters": ",".join(f"{i}@{HOST}:{controllers[i]}" for i in range(voters)),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": NODE_LISTENER if secure else "PLAINTEXT",
            REST_LISTENERS: f"{'https' if secure else 'http'}://{HOST}:0" if rest else "",
        }
        self._ports = clients
        self._access: SecuredAccess | None = None
        if secure:
            files = SecureFiles((directory / SECURE_FOLDER).absolute())
            names = dict.fromkeys(range(nodes), LOCAL_HOSTS)
            complete(files, hosts_of=names, bootstrap=self.bootstrap)
            shared |= {SECURE: "true", SECURE_DIR: str(files.directory)}
            self._access = SecuredAccess(files, self.bootstrap)
        self._nodes: list[_Node] = []
        for node_id in range(nodes):
            listeners = f"{CLIENT_LISTENER if secure else 'PLAINTEXT'}://{HOST}:{clients[node_id]}"
            if secure:
                listeners += f",{NODE_LISTENER}://{HOST}:{peers[node_id]}"
                self._network.assign(peers[node_id], node_id)
            if node_id < voters:
                listeners += f",CONTROLLER://{HOST}:{controllers[node_id]}"
            own = {
                "node.id": str(node_id),
                "process.roles": "broker,controller" if node_id < voters else "broker",
                "listeners": listeners,
                "log.dirs": str(directory / f"node-{node_id}"),
            }
            self._nodes.append(_Node(node_id, {**shared, **own, **(overrides or {})}, self._network))
            self._network.assign(clients[node_id], node_id)
            self._network.assign(controllers[node_id], node_id)

    # ---- start and stop --------------------------------------------------------------------------

    def start(self) -> "Cluster":
        """Start all nodes at once; return when they serve."""
        try:
            for node in self._nodes:
                node.start()
            for node in self._nodes:
                node.wait_until_ready()
        except BaseException:
            self._kill_all()
            raise
        return self

    def stop(self) -> None:
        """Stop all nodes at once, cleanly: each flushes its logs; temporary directories are removed."""
        self.heal()
        try:
            # The last node would wait for a quorum that is gone.
            _all_at_once(self._nodes, lambda node: node.stop(hands_over=False))
        finally:
            self._kill_all()

    def _kill_all(self) -> None:
        for node in self._nodes:
            node.kill()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> "Cluster":
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # ---- information -----------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Return HOST:PORT of all nodes, for `bootstrap.servers`."""
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def client_config(self, library: Library = "confluent", *, user: str = ADMINISTRATOR) -> dict[str, Any]:
        """Return the settings with which a client library connects, as this user if the cluster is secured.

        "confluent": for `Producer({**config})`; "java": properties; "kafka-python" and "aiokafka": arguments.
        """
        return client_config(library, self.bootstrap, self._access, user)

    def add_user(self, name: str, password: str | None = None) -> str:
        """Add a user who logs in by SCRAM-SHA-512, or change its password; return the password.

        Without `password` it is random. The user's rights are granted by `allow`.
        """
        return self._secured().add_user(name, password)

    def allow(
        self,
        user: str,
        *operations: str,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        prefixed: bool = False,
    ) -> None:
        """Allow a user these operations ("READ", "WRITE", ...) on each named resource that supports them.

        With `prefixed` the names are prefixes.
        """
        self._secured().allow(
            user,
            operations,
            {"TOPIC": topic, "GROUP": group, "TRANSACTIONAL_ID": transactional_id},
            is_prefixed=prefixed,
        )

    def _secured(self) -> SecuredAccess:
        if self._access is None:
            raise ValueError("the cluster has no users: create it with secure=True")
        return self._access

    @property
    def rest_urls(self) -> list[str]:
        """Return the REST API's URL of each live node; a restarted node may have another one."""
        urls = [self.rest_url(node.node_id) for node in self._nodes]
        return [url for url in urls if url is not None]

    def rest_url(self, node_id: int) -> str | None:
        """Return the REST API's URL of one node; None if the node is dead or has none."""
        broker = self._nodes[node_id].broker
        addresses = [] if broker is None else broker.rest.addresses
        return addresses[0].url if addresses else None

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of all nodes, dead ones included."""
        return [node.node_id for node in self._nodes]

    @property
    def controller_id(self) -> int:
        """Return the node that leads the metadata quorum as live nodes know it, -1 if none does."""
        for node in self._nodes:
            quorum = None if node.broker is None else node.broker.quorum_services
            if node.thread is not None and quorum is not None and quorum.metadata.is_controller:
                return node.node_id
        return -1

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the leader of a partition in the newest metadata, -1 if it has none or is unknown."""
        quorums = (node.broker.quorum_services for node in self._nodes if node.broker is not None)
        images = [quorum.image for quorum in quorums if quorum is not None]
        if not images:
            return -1
        newest = max(images, key=lambda image: image.version)
        found = newest.topics.by_name.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return -1
        return found.partitions[partition].leader

    # ---- failures --------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """Kill a node in the middle of its work, as SIGKILL does."""
        self._nodes[node_id].kill()

    def shut_down(self, node_id: int) -> None:
        """Stop a node cleanly, as SIGTERM does: it first hands its leaderships over."""
        self._nodes[node_id].stop()

    def restart(self, node_id: int) -> None:
        """Start a dead node, or stop a running one cleanly and start it again, on the files that it left."""
        node = self._nodes[node_id]
        node.stop()
        node.start()
        node.wait_until_ready()

    def pause(self, node_id: int) -> None:
        """Make a node hang, as SIGSTOP does."""
        self._nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Resume a paused node."""
        self._nodes[node_id].resume()

    def partition(self, *groups: Iterable[int]) -> None:
        """Cut the network between groups of nodes; a node in no group is alone. Clients reach all nodes."""
        self._network.divide(groups)

    def isolate(self, node_id: int) -> None:
        """Cut one node off from all others."""
        self.partition([one for one in self.node_ids if one != node_id])

    def heal(self) -> None:
        """Restore the network after `partition`."""
        self._network.heal()


def _all_at_once(nodes: Iterable[_Node], action: Callable[[_Node], None]) -> None:
    """Run `action` for each node in a thread of its own; raise the first error when all are done."""
    problems: list[BaseException] = []

    def run(node: _Node) -> None:
        try:
            action(node)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


class _Identity(NamedTuple):
    """The identity with which a cluster starts again; the voters know each other by their ports."""

    cluster_id: str
    secret: str
    ports: Sequence[int]  # for clients, then for controllers, then for nodes if the cluster is secured


def _new_identity(nodes: int, is_secure: bool) -> _Identity:
    ports = _free_ports((3 if is_secure else 2) * nodes)
    return _Identity(uuid_to_text(secrets.token_bytes(16)), secrets.token_urlsafe(32), ports)


def _kept_identity(path: Path, nodes: int, is_secure: bool) -> _Identity:
    """Return the identity in a file, or write a new one.

    ValueError if the cluster there has another number of nodes, or differs in being secured.
    """
    if not path.exists():
        identity = _new_identity(nodes, is_secure)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        listed = ",".join(map(str, identity.ports))
        text = f"cluster.id={identity.cluster_id}\ncluster.secret={identity.secret}\nports={listed}\n"
        text += "secure=true\n" if is_secure else ""
        path.touch(mode=0o600)  # only its owner may read the secret
        path.write_text(text)
        return identity
    texts = parse_properties(path.read_bytes())
    was_secure = texts.get("secure") == "true"
    if was_secure != is_secure:
        raise ValueError(f"{path.parent} holds a cluster that was created with secure={was_secure}")
    ports = [int(port) for port in texts["ports"].split(",")]
    each = 3 if is_secure else 2
    if len(ports) != each * nodes:
        raise ValueError(f"{path.parent} holds a cluster of {len(ports) // each} nodes, not of {nodes}")
    return _Identity(texts["cluster.id"], texts["cluster.secret"], ports)


def _free_ports(count: int) -> list[int]:
    """Return random free ports; all are held until the last is found, so that none is found twice."""
    probes: list[socket.socket] = []
    try:
        while len(probes) < count:
            probe = socket.socket()
            try:
                probe.bind((HOST, PORTS[secrets.randbelow(len(PORTS))]))
            except OSError:
                probe.close()
            else:
                probes.append(probe)
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
