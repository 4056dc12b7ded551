"""A cluster inside the process of its user: for tests, and for whoever wants to see one fail.

    with Cluster(nodes=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(0)

Every node has a thread with its own event loop and a directory of its own; clients reach it over loopback as
any other cluster. What is done to a node here is what happens to one elsewhere: `kill` leaves its files as
they are, `pause` stops it in the middle of whatever it does, `partition` lets no byte pass between nodes.
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
MAX_VOTERS: Final = 5  # as `ottla cluster up`
THREAD_TIMEOUT_S: Final = 60.0
# Below those that Linux gives to clients: nobody takes the port of a dead node before it comes back, neither
# a client of something else nor one that dials this very port and so reaches itself.
PORTS: Final = range(12_000, 32_000)
# What makes a cluster for tests quick; `overrides` has the last word.
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(slots=True)
class _Node:
    """One node and the thread in which it lives; `thread` is None while it is dead."""

    node_id: int
    texts: Mapping[str, str]
    network: Network
    thread: threading.Thread | None = None
    broker: Broker | None = None
    loops: list[asyncio.AbstractEventLoop] = field(default_factory=list)
    is_ending: bool = False
    is_killed: bool = False
    hands_over: bool = True  # what it leads, when it is stopped
    problem: BaseException | None = None
    _main: asyncio.Task[None] | None = None
    _stop: asyncio.Event | None = None
    _is_ready: threading.Event = field(default_factory=threading.Event)
    _resume: threading.Event | None = None
    # A thread can be waited for only once it runs, and who ends a node may come before.
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to start; `wait_until_ready` tells when it serves."""
        self.is_ending, self.is_killed, self.problem = False, False, None
        self._main, self._stop = None, None
        self._is_ready = threading.Event()
        with self._starting:
            self.thread = threading.Thread(target=self._run, name=f"ottla-node-{self.node_id}", daemon=True)
            self.thread.start()

    def wait_until_ready(self) -> None:
        """Raises what kept it from serving; RuntimeError if somebody ended it meanwhile."""
        if not self._is_ready.wait(THREAD_TIMEOUT_S):
            raise TimeoutError(f"node {self.node_id} is not ready after {THREAD_TIMEOUT_S:.0f} s")
        if self.problem is not None:
            raise self.problem
        if self._main is None or self._main.cancelled():
            raise RuntimeError(f"node {self.node_id} stopped before it was ready")

    def stop(self, *, hands_over: bool = True) -> None:
        """As SIGTERM; nothing if it is dead."""
        self.hands_over = hands_over
        self.resume()
        self._end()

    def kill(self) -> None:
        """As SIGKILL: its files stay as they are, its peers see their connections end."""
        self.is_killed = True
        self.resume()
        self._end()

    def pause(self) -> None:
        """As SIGSTOP: its loops stand still, its sockets stay open."""
        if self._resume is None and self.thread is not None:
            self._resume = threading.Event()
            for loop in self.loops:
                call(loop, self._resume.wait)

    def resume(self) -> None:
        """As SIGCONT."""
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
        except BaseException as problem:  # told to the caller, in whose thread this is not
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
        """A node that still starts may wait for others that will never come: it is not waited for."""
        if self._stop is not None and self._main is not None:
            self._stop.set()
            if not self._is_ready.is_set():
                self._main.cancel()

    async def _live(self) -> None:
        self._main, self._stop = asyncio.current_task(), asyncio.Event()
        if self.is_ending:
            raise asyncio.CancelledError  # who ended it found nobody to ask
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
    """`nodes` brokers, up to five of them voters. Use it with `with`, `async with`, or `start` and `stop`.

    `data` keeps the directories of the nodes, and what makes the cluster the same one when it is started
    there again, its ports too; without it they are temporary. Topics have a replica on each of up to three
    nodes unless they are created with another number. `overrides` are settings of all nodes, and one that
    does not exist is a KafkaError that names the nearest. With `rest` each node has the REST API, on a port
    of its own that `rest_urls` tells. With `secure` it is as `ottla start --secure` makes it: clients log in
    over TLS, by what `client_config` tells, as an administrator or as users of `add_user`. Its methods block
    for as long as what they do takes; the asynchronous context does not.
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
        # A secured one has ports for nodes behind those of the controllers.
        clients, controllers, peers = (
            identity.ports[begin : begin + nodes] for begin in (0, nodes, 2 * nodes)
        )
        voters = nodes if nodes <= 3 else 3 if nodes == 4 else MAX_VOTERS
        shared = {
            **QUICK,
            # A topic that a client creates by writing to it outlives the loss of a node, too.
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
        """All nodes at once; returns when they serve."""
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
        """All nodes at once: each flushes its logs and ends cleanly; temporary directories go."""
        self.heal()
        try:
            # Whoever is last would wait for a quorum that is gone.
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

    # ---- what a user asks ------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of all nodes, for `bootstrap.servers`."""
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def client_config(self, library: Library = "confluent", *, user: str = ADMINISTRATOR) -> dict[str, Any]:
        """Return what a client of a library is given to connect, as this user where the cluster is secured.

        "confluent": for `Producer({**config})`; "java": properties; "kafka-python" and "aiokafka": arguments.
        """
        return client_config(library, self.bootstrap, self._access, user)

    def add_user(self, name: str, password: str | None = None) -> str:
        """Add a user who logs in by SCRAM-SHA-512, or give it this password; return the password.

        Without one it is random. What the user may do is for `allow` to say.
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
        """Let a user do these operations ("READ", "WRITE", ...) with each resource named that has them.

        With `prefixed` the names are beginnings of names.
        """
        self._secured().allow(
            user,
            operations,
            {"TOPIC": topic, "GROUP": group, "TRANSACTIONAL_ID": transactional_id},
            is_prefixed=prefixed,
        )

    def _secured(self) -> SecuredAccess:
        if self._access is None:
            raise ValueError("the cluster has no users: make it with secure=True")
        return self._access

    @property
    def rest_urls(self) -> list[str]:
        """The URLs of the REST API of each living node; a node that starts anew may have another."""
        urls = [self.rest_url(node.node_id) for node in self._nodes]
        return [url for url in urls if url is not None]

    def rest_url(self, node_id: int) -> str | None:
        """The same of one node; None while it is dead, or has none."""
        broker = self._nodes[node_id].broker
        addresses = [] if broker is None else broker.rest.addresses
        return addresses[0].url if addresses else None

    @property
    def node_ids(self) -> list[int]:
        """All nodes, dead ones too."""
        return [node.node_id for node in self._nodes]

    @property
    def controller_id(self) -> int:
        """The node that leads the metadata quorum as the living nodes know it, -1 if none does."""
        for node in self._nodes:
            quorum = None if node.broker is None else node.broker.quorum_services
            if node.thread is not None and quorum is not None and quorum.metadata.is_controller:
                return node.node_id
        return -1

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that leads a partition as the newest metadata say, -1 if none does or it is unknown."""
        quorums = (node.broker.quorum_services for node in self._nodes if node.broker is not None)
        images = [quorum.image for quorum in quorums if quorum is not None]
        if not images:
            return -1
        newest = max(images, key=lambda image: image.version)
        found = newest.topics.by_name.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return -1
        return found.partitions[partition].leader

    # ---- what can happen to a node ---------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """End a node in the middle of what it does, as SIGKILL."""
        self._nodes[node_id].kill()

    def shut_down(self, node_id: int) -> None:
        """Stop a node in order, as SIGTERM: it hands over what it leads first."""
        self._nodes[node_id].stop()

    def restart(self, node_id: int) -> None:
        """Start a node that is dead, or stop one in order and start it again, with the files that it left."""
        node = self._nodes[node_id]
        node.stop()
        node.start()
        node.wait_until_ready()

    def pause(self, node_id: int) -> None:
        """Make a node hang, as SIGSTOP."""
        self._nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Let it go on."""
        self._nodes[node_id].resume()

    def partition(self, *groups: Iterable[int]) -> None:
        """Cut the network between groups of nodes; nodes in no group are each alone. Clients reach all."""
        self._network.divide(groups)

    def isolate(self, node_id: int) -> None:
        """Cut one node off from all others."""
        self.partition([one for one in self.node_ids if one != node_id])

    def heal(self) -> None:
        """Join what `partition` has cut."""
        self._network.heal()


def _all_at_once(nodes: Iterable[_Node], action: Callable[[_Node], None]) -> None:
    """Do it to each in a thread of its own; the first error is raised when all are done."""
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
    """What makes a cluster the same one at its next start; the voters know each other by their ports."""

    cluster_id: str
    secret: str
    ports: Sequence[int]  # for clients, then for controllers, then for nodes if it is secured


def _new_identity(nodes: int, is_secure: bool) -> _Identity:
    ports = _free_ports((3 if is_secure else 2) * nodes)
    return _Identity(uuid_to_text(secrets.token_bytes(16)), secrets.token_urlsafe(32), ports)


def _kept_identity(path: Path, nodes: int, is_secure: bool) -> _Identity:
    """The identity that was written there, or a new one, written; ValueError for another number of nodes.

    ValueError, too, if it was secured and is not to be any more, or the other way round.
    """
    if not path.exists():
        identity = _new_identity(nodes, is_secure)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        listed = ",".join(map(str, identity.ports))
        text = f"cluster.id={identity.cluster_id}\ncluster.secret={identity.secret}\nports={listed}\n"
        text += "secure=true\n" if is_secure else ""
        path.touch(mode=0o600)  # the secret is its owner's alone
        path.write_text(text)
        return identity
    texts = parse_properties(path.read_bytes())
    was_secure = texts.get("secure") == "true"
    if was_secure != is_secure:
        raise ValueError(f"{path.parent} holds a cluster that was made with secure={was_secure}")
    ports = [int(port) for port in texts["ports"].split(",")]
    each = 3 if is_secure else 2
    if len(ports) != each * nodes:
        raise ValueError(f"{path.parent} holds a cluster of {len(ports) // each} nodes, not of {nodes}")
    return _Identity(texts["cluster.id"], texts["cluster.secret"], ports)


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has, by chance; all are held until the last is found, so that none comes twice."""
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
