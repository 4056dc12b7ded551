"""`ottla cluster up` and `ottla cluster start-node`: several nodes on one machine, one process each.

Every node has a directory `DIR/node-ID` with its `server.properties`, its data, its log and, while it runs,
its `pid`. A node needs nothing else: `ottla start --config` restarts it. Running `cluster up` again in the
same directory starts the same cluster.
"""

import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.logstore.volume import LOCK_FILE
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.node.cli.administrator_lines import administrator_lines
from ottla.node.cli.answers import answer
from ottla.node.cli.cluster_overrides import check_overrides, override_lines
from ottla.node.cli.failure import EXIT_INTERRUPTED, CommandError
from ottla.node.cli.free_ports import refuse_taken_ports
from ottla.node.process.stop_signals import stop_signals
from ottla.node.rest_api.readiness import STILL_STARTING
from ottla.node.secure_setup.node_keys import LOCAL_HOSTS
from ottla.node.secure_setup.secure_directory import complete
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.rest_settings import REST_LISTENERS
from ottla.node.settings.secure_settings import (
    CLIENT_LISTENER,
    NODE_LISTENER,
    SECURE,
    SECURE_DIR,
    SecureFiles,
)

HOST: Final = "127.0.0.1"
PROPERTIES: Final = "server.properties"
PID_FILE: Final = "pid"
SECURE_FOLDER: Final = "secure"
LOG_FILE: Final = "node.log"
MAX_NODES: Final = 50  # processes on one machine
MAX_VOTERS: Final = 5  # more voters slow down every metadata change, and make the cluster little safer
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0  # a node flushes its logs and hands over its leadership
WATCH_INTERVAL_S: Final = 0.1
_OTHER_DATA: Final = " Choose another data directory with --data."


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHome:
    """The directory of one node of a local cluster."""

    node_id: int
    directory: Path

    @property
    def properties(self) -> Path:
        return self.directory / PROPERTIES

    @property
    def log(self) -> Path:
        return self.directory / LOG_FILE

    def start_state(self) -> str:
        """Return the last reason in the node's log why it does not serve yet."""
        for line in reversed(self.log.read_text(errors="replace").splitlines()):
            _, found, reason = line.partition(STILL_STARTING)
            if found:
                return reason
        return "reason unknown"

    def running_pid(self) -> int | None:
        """Return the process id of this node; None unless it runs."""
        try:
            pid = int((self.directory / PID_FILE).read_text())
            # The file outlives its process, and another process may have the id by now.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            directory = Path(f"/proc/{pid}/cwd").readlink()
        except (OSError, ValueError):
            return None
        # A user who started it may have given another path to the same file.
        own = self.properties.resolve()
        named = [
            os.fsdecode(word.removeprefix(b"--config="))
            for word in words
            if word.endswith(PROPERTIES.encode())
        ]
        return pid if any((directory / name).resolve() == own for name in named) else None


# `-P`: a file in the current directory, such as types.py, must not replace a module of Python.
OTTLA: Final = (sys.executable, "-P", "-m", "ottla")


class NodeProcess:
    """A node that this process has started; call `wait_until_ready` before anything else."""

    def __init__(
        self,
        home: NodeHome,
        prefix: Sequence[str] = (),
        start: "Callable[..., subprocess.Popen[bytes]]" = subprocess.Popen,
    ) -> None:
        """Start the node by `start`; `prefix` is a command that runs it, such as `ip netns exec NAME`."""
        self.home = home
        self.ready_line = ""
        with home.log.open("ab") as log_file:
            # A session of its own: Ctrl-C reaches only the command, which then stops the nodes in order.
            self.process = start(
                [*prefix, *OTTLA, "start", "--config", home.properties],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,
            )

    @property
    def is_broker(self) -> bool:
        """Return True if it serves clients; a node that is only a controller does not."""
        return " bootstrap=" in self.ready_line

    @property
    def bootstrap(self) -> str:
        """Return HOST:PORT from its READY line."""
        return self.ready_line.split(" bootstrap=", 1)[1].split()[0]

    @property
    def rest(self) -> str:
        """Return the URLs of its REST API from its READY line, separated by commas; `-` if it has none."""
        return self.ready_line.split(" rest=", 1)[1].split()[0]

    def close(self) -> None:
        """Close the pipe to the node, which has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def failure(self) -> CommandError:
        """Return the error for a failed start, with the last line of the log."""
        lines = self.home.log.read_text(errors="replace").strip().splitlines()
        last_log_line = lines[-1].removeprefix("ottla: ") if lines else "it printed nothing"
        return CommandError(f"Node {self.home.node_id} did not start: {last_log_line} ({self.home.log})")


def cluster_up(
    nodes: int, *, base_port: int, data: Path, overrides: Sequence[str], is_secure: bool = False
) -> None:
    """Run a cluster until SIGTERM, SIGHUP or Ctrl-C; print one READY line when every node serves.

    A node that dies stays down until it is restarted by `start_node`; restarted nodes are stopped at the end
    too.
    """
    check_overrides([f"{SECURE}=true", *overrides] if is_secure else overrides)
    with _usable(data, _OTHER_DATA):
        _refuse_data_of_one_node(data)
        homes = _usable_homes(nodes, base_port=base_port, data=data.absolute(), is_secure=is_secure)
        _refuse_other_security(homes[0], is_secure)
    # Before anything is written: the directory would look like that of a cluster that never ran.
    refuse_taken_ports(HOST, range(base_port, base_port + _ports_of(is_secure) * nodes))
    with _usable(data, _OTHER_DATA):
        homes = write_homes(
            nodes,
            base_port=base_port,
            data=data.absolute(),
            overrides=overrides,
            rest=True,
            is_secure=is_secure,
        )
    with stop_requests() as requested:
        started: list[NodeProcess] = []
        try:
            with _usable(data, _OTHER_DATA):
                started.extend(NodeProcess(home) for home in homes)
            wait_until_ready(started, requested)
            if not requested:
                bootstrap = ",".join(node.bootstrap for node in started)
                print(
                    f"READY bootstrap={bootstrap} rest={','.join(node.rest for node in started)}", flush=True
                )
                if is_secure:
                    print("\n".join(administrator_lines(_secure_files(data), bootstrap)), flush=True)
                _watch(started, requested)
        finally:
            is_clean = stop_all(started)
    if not is_clean:
        raise CommandError(f"A node did not stop cleanly; see the logs in {data}.")


def start_node(data: Path, node_id: int, *, as_json: bool) -> None:
    """Start one node of a cluster that `cluster up` has created, and leave it running."""
    home = NodeHome(node_id=node_id, directory=data.absolute() / f"node-{node_id}")
    with _usable(data):
        is_there = home.properties.exists()
    if not is_there:
        raise CommandError(
            f"{home.directory} does not hold a node; create the cluster with `ottla cluster up --data "
            f"{data}`."
        )
    pid = home.running_pid()
    if pid is not None:
        raise CommandError(f"Node {node_id} is already running as process {pid}.")
    with stop_requests() as requested:
        with _usable(data):
            node = NodeProcess(home)
        wait_until_ready([node], requested)
        if requested:
            stop_all([node])
            raise CommandError(f"The new process of node {node_id} was stopped again.", 128 + requested[0])
    answer(
        {"node": node_id, "pid": node.process.pid, "bootstrap": node.bootstrap, "rest": node.rest},
        f"READY node={node_id} pid={node.process.pid} bootstrap={node.bootstrap} rest={node.rest}",
        as_json=as_json,
    )


@contextmanager
def _usable(data: Path, advice: str = "") -> Iterator[None]:
    """Turn an error of the file system into one sentence."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{error.filename or data}: {error.strerror or error}.{advice}") from None


# ---- files ---------------------------------------------------------------------------------------


def write_homes(
    nodes: int,
    *,
    base_port: int,
    data: Path,
    overrides: Sequence[str],
    rest: bool = False,
    is_secure: bool = False,
) -> list[NodeHome]:
    """Create or update the directories of the nodes; the cluster id and the secret stay as they are.

    With `rest` each node has the REST API, on the ports above those for Kafka.
    """
    homes = _usable_homes(nodes, base_port=base_port, data=data, is_secure=is_secure)
    identity = _identity(homes[0])
    if is_secure:
        _make_keys(data, homes, base_port)
    voters = ",".join(f"{index}@{HOST}:{base_port + nodes + index}" for index in range(_voters(nodes)))
    scheme = "https" if is_secure else "http"
    for home in homes:
        home.directory.mkdir(0o700, parents=True, exist_ok=True)
        is_voter = home.node_id < _voters(nodes)
        lines = [
            "# Written by `ottla cluster up`, which overwrites it at each start.",
            f"node.id={home.node_id}",
            f"process.roles={'broker,controller' if is_voter else 'broker'}",
            *identity,
            "listeners="
            + _listeners(
                home.node_id, nodes=nodes, base_port=base_port, is_voter=is_voter, is_secure=is_secure
            ),
            "controller.listener.names=CONTROLLER",
            *_security_lines(data, is_secure),
            f"controller.quorum.voters={voters}",
            f"{REST_LISTENERS}={f'{scheme}://{HOST}:{base_port + 2 * nodes + home.node_id}' if rest else ''}",
            f"log.dirs={home.directory / 'data'}",
            f"pid.file={home.directory / PID_FILE}",
            *override_lines(overrides),
        ]
        _write_private(home.properties, "".join(f"{line}\n" for line in lines))
    return homes


def _usable_homes(nodes: int, *, base_port: int, data: Path, is_secure: bool = False) -> list[NodeHome]:
    """Return the directories of the nodes.

    CommandError if the ports do not suffice, if `data` holds another number of nodes, or if a node runs.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise CommandError(f"--nodes must be between 1 and {MAX_NODES}.")
    ports = _ports_of(is_secure)
    if base_port + ports * nodes > 65536:
        raise CommandError(
            f"--base-port must be at most {65536 - ports * nodes}: {nodes} nodes need {ports * nodes} ports "
            "from there on."
        )
    homes = [NodeHome(node_id=index, directory=data / f"node-{index}") for index in range(nodes)]
    there = sorted(path.name for path in data.glob("node-*")) if data.exists() else []
    if there and len(there) != nodes:
        raise CommandError(
            f"{data} holds a cluster of {len(there)} nodes: use --nodes {len(there)}, or choose "
            "another --data."
        )
    for home in homes:
        if (pid := home.running_pid()) is not None:
            raise CommandError(
                f"Node {home.node_id} of {data} is already running as process {pid}; `kill {pid}` stops it."
            )
    return homes


def _refuse_data_of_one_node(data: Path) -> None:
    """Raise CommandError for the data directory of a single node, which no node of the cluster would use."""
    if any((data / name).exists() for name in (META_PROPERTIES, LOCK_FILE)):
        raise CommandError(
            f"{data} holds the data of a single node started by `ottla start`: choose another --data."
        )


def _identity(first: NodeHome) -> list[str]:
    """Return the lines that all nodes of one cluster share, and that stay the same at each start."""
    path = first.properties
    known = parse_properties(path.read_bytes(), str(path)) if path.exists() else {}
    cluster_id = known.get("cluster.id") or uuid_to_text(os.urandom(16))
    secret = known.get("cluster.secret") or secrets.token_urlsafe(32)
    return [f"cluster.id={cluster_id}", f"cluster.secret={secret}"]


def _voters(nodes: int) -> int:
    """Return the number of voters: an odd one if there are three nodes or more."""
    return nodes if nodes <= 3 else 3 if nodes == 4 else MAX_VOTERS


def _ports_of(is_secure: bool) -> int:
    """Return the number of ports per node: for clients, controllers and REST; if secured, one for nodes."""
    return 4 if is_secure else 3


def _secure_files(data: Path) -> SecureFiles:
    return SecureFiles(data.absolute() / SECURE_FOLDER)


def _make_keys(data: Path, homes: Sequence[NodeHome], base_port: int) -> None:
    """Create the missing keys of the nodes, and the administrator."""
    bootstrap = ",".join(f"{HOST}:{base_port + home.node_id}" for home in homes)
    try:
        complete(
            _secure_files(data),
            hosts_of={home.node_id: LOCAL_HOSTS for home in homes},
            bootstrap=bootstrap,
        )
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail)) from None


def _refuse_other_security(first: NodeHome, is_secure: bool) -> None:
    """Raise CommandError if a cluster would start less secure than before, or without an administrator."""
    path = first.properties
    if not path.exists():
        return
    was_secure = parse_properties(path.read_bytes(), str(path)).get(SECURE) == "true"
    data = first.directory.parent
    if was_secure and not is_secure:
        raise CommandError(
            f"{data} holds a cluster that was started with --secure, and without --secure any client could "
            "use it: give --secure, or choose another --data."
        )
    if is_secure and not was_secure:
        raise CommandError(
            f"{data} holds a cluster that was started without --secure, which has no administrator: choose "
            "another --data."
        )


def _security_lines(data: Path, is_secure: bool) -> list[str]:
    if not is_secure:
        return ["inter.broker.listener.name=PLAINTEXT"]
    return [f"{SECURE}=true", f"{SECURE_DIR}={_secure_files(data).directory}"]


def _listeners(node_id: int, *, nodes: int, base_port: int, is_voter: bool, is_secure: bool) -> str:
    listeners = [f"{CLIENT_LISTENER if is_secure else 'PLAINTEXT'}://{HOST}:{base_port + node_id}"]
    if is_secure:
        listeners.append(f"{NODE_LISTENER}://{HOST}:{base_port + 3 * nodes + node_id}")
    if is_voter:
        listeners.append(f"CONTROLLER://{HOST}:{base_port + nodes + node_id}")
    return ",".join(listeners)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, since it has the secret of the cluster."""
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


# ---- processes -----------------------------------------------------------------------------------


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collect the signals that request a stop, instead of ending by them."""
    requested: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        requested.append(number)

    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until_ready(nodes: Sequence[NodeProcess], requested: Sequence[int]) -> None:
    """Wait until all nodes have printed READY or a stop is requested; CommandError if a node failed."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        for node in nodes:
            assert node.process.stdout is not None
            selector.register(node.process.stdout, selectors.EVENT_READ, node)
        while selector.get_map() and not requested:
            if time.monotonic() > deadline_s:
                home: NodeHome = next(iter(selector.get_map().values())).data.home
                raise CommandError(
                    f"Node {home.node_id} is not ready after {START_TIMEOUT_S:.0f} s: "
                    f"{home.start_state()} ({home.log})"
                )
            for key, _ in selector.select(WATCH_INTERVAL_S):
                line = key.data.process.stdout.readline().decode(errors="replace")
                if not line:
                    raise key.data.failure()
                if line.startswith("READY "):
                    key.data.ready_line = line
                    selector.unregister(key.fileobj)


def _watch(nodes: Sequence[NodeProcess], requested: Sequence[int]) -> None:
    """Wait until a stop is requested; print a message once for each node that dies."""
    alive = list(nodes)
    while not requested:
        for node in tuple(alive):
            if node.process.poll() is not None:
                alive.remove(node)
                outcome = exit_reason(node.process.returncode)
                print(
                    f"Node {node.home.node_id} {outcome}; restart it with `ottla cluster start-node "
                    f"{node.home.directory.parent} {node.home.node_id}`.",
                    file=sys.stderr,
                    flush=True,
                )
        time.sleep(WATCH_INTERVAL_S)


def exit_reason(returncode: int) -> str:
    """Return the end of a process as the rest of a sentence."""
    if returncode < 0:
        return f"was killed by {signal.Signals(-returncode).name}"
    return f"exited with code {returncode}"


def stop_all(nodes: Sequence[NodeProcess]) -> bool:
    """Stop all running nodes, restarted ones included; return True if all of them stopped cleanly.

    Each gets SIGTERM and SIGINT: the second signal makes it stop without handing over its leadership, since
    no node is left to take it over. They differ, since the kernel may merge two equal signals into one.
    """
    ours = [node for node in nodes if node.process.poll() is None]
    restarted = [(node.home, pid) for node in nodes if (pid := node.home.running_pid()) is not None]
    restarted = [(home, pid) for home, pid in restarted if all(pid != node.process.pid for node in ours)]
    for pid in [*(node.process.pid for node in ours), *(pid for _, pid in restarted)]:
        _signal(pid, signal.SIGTERM)
        _signal(pid, signal.SIGINT)
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    is_clean = True
    for node in ours:
        try:
            returncode = node.process.wait(max(0.0, deadline_s - time.monotonic()))
            is_clean = _stopped_cleanly(node, returncode) and is_clean
        except subprocess.TimeoutExpired:
            node.process.kill()
            is_clean = False
    for home, pid in restarted:
        while home.running_pid() == pid:
            if time.monotonic() > deadline_s:
                _signal(pid, signal.SIGKILL)
                is_clean = False
                break
            time.sleep(WATCH_INTERVAL_S)
    return is_clean


def _stopped_cleanly(node: NodeProcess, returncode: int) -> bool:
    """Return True if it stopped as requested; one that was still importing its modules ends by the signal."""
    by_signal = (-signal.SIGTERM, -signal.SIGINT, EXIT_INTERRUPTED)
    return returncode == 0 or (not node.ready_line and returncode in by_signal)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
