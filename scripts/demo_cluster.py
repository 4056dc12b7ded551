"""The cluster of the demo: three nodes in three processes, and a topic with a replica on each."""

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from demo_access import Access, access_to
from demo_error import DemoError
from demo_failure import Failure
from demo_flights import TOPIC
from ending import WAIT_LIMIT_S

from ottla.node.cli.local_cluster import NodeHome

OTTLA = Path(sys.executable).with_name("ottla")
NODES = 3
MIN_IN_SYNC = 2
FIRST_PORT, LAST_PORT = 20_000, 30_000  # below the ephemeral ports
START_TIMEOUT_S = 30
MARKER = ".demo"  # in a directory of a demo; locked while a demo uses it
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# librdkafka's log lines about a killed node are expected, and would break the progress bars.
QUIET = {"log_level": 2}


@contextmanager
def own_directory(data: Path) -> Iterator[None]:
    """Lock `data` for this demo, and delete what an earlier demo left there, but nothing of other programs.

    DemoError while another demo works there, or nodes run there, such as those that a user has started again.
    """
    if data.exists() and any(data.iterdir()) and not (data / MARKER).exists():
        raise DemoError(f"{data} is not empty and not from a demo; name another directory with --data.")
    data.mkdir(parents=True, exist_ok=True)
    with (data / MARKER).open("w") as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(
                f"another demo is at work in {data}; wait for it, or name another directory with --data."
            ) from None
        if running := running_nodes(data):
            raise DemoError(
                f"nodes run in {data}; stop them (kill {' '.join(map(str, running))}),"
                " or name another directory with --data."
            )
        for path in data.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != MARKER:
                path.unlink()
        yield


def running_nodes(data: Path) -> list[int]:
    """Return the process ids of the nodes that run on this directory."""
    homes = [
        NodeHome(node_id=int(path.name.removeprefix("node-")), directory=path)
        for path in (data / "cluster").glob("node-*")
    ]
    return [pid for home in homes if (pid := home.running_pid()) is not None]


def end_with_parent() -> None:
    """Let the kernel stop this child process when the demo is killed, as a killed demo cannot stop it."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start_cluster(data: Path, *, is_secure: bool) -> "tuple[subprocess.Popen[str], Access]":
    """Start the cluster, open or secured; return its process, and the access for clients."""
    # The only member of the group need not wait for others; Kafka's own quickstart sets this too.
    override = "group.initial.rebalance.delay.ms=0"
    options = ["--nodes", str(NODES), "--base-port", str(free_ports(4 * NODES)), "--data", data / "cluster"]
    command = [OTTLA, "cluster", "up", *(["--secure"] * is_secure), *options, "--override", override]
    log_file = (data / "cluster.log").open("w")
    # In a session of its own, so that Ctrl-C reaches only the demo, which then stops the cluster.
    cluster = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=log_file,
        text=True,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    assert cluster.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, cluster.terminate)
    timer.start()
    try:
        for line in cluster.stdout:
            if line.startswith("READY "):
                bootstrap = line.split("bootstrap=")[1].split()[0]
                return cluster, access_to(bootstrap, data / "cluster" / "secure" if is_secure else None)
    except BaseException:  # the demo was stopped
        stop_cluster(cluster)
        raise
    finally:
        timer.cancel()
    stop_cluster(cluster)
    raise DemoError(f"the cluster did not start; {data / 'cluster.log'} says why.")


def stop_cluster(cluster: "subprocess.Popen[str]") -> int:
    """Stop the cluster by SIGTERM, as Kubernetes does; return its exit code."""
    cluster.send_signal(signal.SIGTERM)
    try:
        return cluster.wait(WAIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        cluster.kill()
        return cluster.wait()


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports."""
    for base in range(FIRST_PORT + os.getpid() % 500 * 16, LAST_PORT, count):
        if all(is_free(base + index) for index in range(count)):
            return base
    raise DemoError(f"no {count} ports in a row are free below {LAST_PORT}.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def create_topic(access: Access, partitions: int) -> None:
    admin = AdminClient({**access.confluent, **QUIET})
    topic = NewTopic(TOPIC, partitions, NODES, config={"min.insync.replicas": str(MIN_IN_SYNC)})
    admin.create_topics([topic])[TOPIC].result(START_TIMEOUT_S)


def make_failure(data: Path, access: Access, topic: str) -> Failure:
    return Failure(data / "cluster", [OTTLA, "cluster", "start-node"], access, topic)
