"""Runs the nodes of one host as processes, and restarts those that die.

A node that dies is restarted after a second, and after twice as long each time, up to half a minute. At the
end the brokers are stopped first, and then the first node, which may be a voter, so that all of them can hand
over their leadership.
"""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import IO, Final

from ottla.node.cli.failure import CommandError
from ottla.node.cli.local_cluster import OTTLA, START_TIMEOUT_S, STOP_TIMEOUT_S, exit_reason, stop_requests

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
STABLE_AFTER_S: Final = 60.0  # after this time the pause of a node starts at its minimum again
WATCH_INTERVAL_S: Final = 0.1
_PR_SET_PDEATHSIG: Final = 1


def _end_with_parent() -> None:
    """Make the kernel end this process if the supervisor is killed (prctl(2)).

    The node has its own session, so nothing else would end it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(slots=True)
class HostedNode:
    """A node of this host, and its current process."""

    node_id: int
    command: Sequence[str]
    prefix: bytes = b""  # of its log lines
    ready_line: str = ""
    last_log_line: str = "it printed nothing"
    pause_s: float = FIRST_PAUSE_S
    started_s: float = 0.0
    restart_at_s: float | None = None  # if it has died
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    def start(self) -> None:
        """Start the process; relay its standard error, and read the READY line from its standard output."""
        self.ready_line, self.restart_at_s = "", None
        self.started_s = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only the supervisor
            preexec_fn=_end_with_parent,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        for stream, handle_line in ((self.process.stdout, self._read_line), (self.process.stderr, self._log)):
            Thread(target=_relay, args=(stream, handle_line), daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Return True if its process has not ended."""
        return self.process is not None and self.process.poll() is None

    def ready_value(self, name: str) -> str:
        """Return a field of its READY line."""
        return self.ready_line.split(f" {name}=", 1)[1].split()[0]

    def ask_to_stop(self) -> None:
        """Send SIGTERM; a second one ends the process without a handover of its leadership."""
        if self.is_running and self.process is not None:
            self.process.terminate()

    def _read_line(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if text.startswith("READY "):
            self.ready_line = text

    def _log(self, line: bytes) -> None:
        self.last_log_line = line.decode(errors="replace").strip().removeprefix("ottla: ")
        sys.stderr.buffer.write(self.prefix + line)
        sys.stderr.buffer.flush()


def _relay(stream: IO[bytes], handle_line: Callable[[bytes], None]) -> None:
    with stream:
        for line in stream:
            handle_line(line)


def run_host(commands: Sequence[tuple[int, Sequence[str]]], *, names_nodes: bool) -> None:
    """Run these nodes until SIGTERM, SIGHUP or Ctrl-C; print one READY line when all of them serve.

    `commands` have the ids and commands of the nodes; with `names_nodes` their log lines begin with the id.
    CommandError if a node fails at its first start, or does not stop when asked to.
    """
    nodes = [
        HostedNode(node_id, [*OTTLA, *words], f"node {node_id}: ".encode() if names_nodes else b"")
        for node_id, words in commands
    ]
    with stop_requests() as requested:
        try:
            for node in nodes:
                node.start()
            _wait_until_ready(nodes, requested)
            if not requested:
                bootstrap = ",".join(node.ready_value("bootstrap") for node in nodes)
                print(
                    f"READY bootstrap={bootstrap} rest={nodes[0].ready_value('rest')} nodes={len(nodes)}",
                    flush=True,
                )
                while not requested:
                    restart_dead_nodes(nodes)
                    time.sleep(WATCH_INTERVAL_S)
        finally:
            is_clean = stop_nodes(nodes, requested)
    if not is_clean:
        raise CommandError("A node did not stop in time, and was killed.")


def _wait_until_ready(nodes: Sequence[HostedNode], requested: Sequence[int]) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not requested and (waiting := [node for node in nodes if not node.ready_line]):
        for node in waiting:
            if not node.is_running:
                time.sleep(WATCH_INTERVAL_S)  # until its last log line is read
                raise CommandError(f"Node {node.node_id} did not start: {node.last_log_line}")
        if time.monotonic() > deadline_s:
            # It may wait for other hosts of the cluster, so it keeps running.
            names = ", ".join(str(node.node_id) for node in waiting)
            print(
                f"ottla: not ready after {START_TIMEOUT_S:.0f} s; still waiting for node {names}.",
                file=sys.stderr,
                flush=True,
            )
            deadline_s = float("inf")
        time.sleep(WATCH_INTERVAL_S)


def restart_dead_nodes(nodes: Sequence[HostedNode]) -> None:
    """Plan the restart of each node that has died, and restart those whose pause is over."""
    now_s = time.monotonic()
    for node in nodes:
        if node.is_running:
            continue
        assert node.process is not None
        if node.restart_at_s is None:
            if now_s - node.started_s > STABLE_AFTER_S:
                node.pause_s = FIRST_PAUSE_S
            _plan_restart(node, exit_reason(node.process.returncode))
        elif now_s >= node.restart_at_s:
            try:
                node.start()
            except OSError as error:  # for example no memory, or the program is being replaced
                _plan_restart(node, f"could not be started ({error.strerror})")


def _plan_restart(node: HostedNode, reason: str) -> None:
    node.restart_at_s = time.monotonic() + node.pause_s
    print(
        f"ottla: node {node.node_id} {reason}; it will be restarted in {node.pause_s:g} s.",
        file=sys.stderr,
        flush=True,
    )
    node.pause_s = min(2 * node.pause_s, LONGEST_PAUSE_S)


def stop_nodes(nodes: Sequence[HostedNode], requested: Sequence[int]) -> bool:
    """Stop the brokers, then the first node; return True if none had to be killed.

    Each gets SIGTERM once for every signal in `requested`, at least once; a second one makes it stop
    without a handover of its leadership.
    """
    is_clean = True
    for some in (nodes[1:], nodes[:1]):
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        signals_sent = 0
        while any(node.is_running for node in some):
            if signals_sent < max(1, len(requested)):
                for node in some:
                    node.ask_to_stop()
                signals_sent += 1
            if time.monotonic() > deadline_s:
                is_clean = False
                for node in some:
                    if node.is_running and node.process is not None:
                        node.process.kill()
            time.sleep(WATCH_INTERVAL_S)
    return is_clean
