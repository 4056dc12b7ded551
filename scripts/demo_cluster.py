"""The cluster of the demo: three nodes in three processes, and the topic with a replica in each."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from demo_error import DemoError
from demo_failure import Failure
from demo_flights import TOPIC

OTTLA = Path(sys.executable).with_name("ottla")
NODES = 3
MIN_IN_SYNC = 2
FIRST_PORT, LAST_PORT = 20_000, 30_000  # below the ports that the system gives to clients
START_TIMEOUT_S = 30
# What librdkafka says of a node that was killed is no news here; it would go through the progress bars.
QUIET = {"log_level": 2}


def start_cluster(data: Path) -> "tuple[subprocess.Popen[str], str]":
    # The only member of the group need not wait for others: Kafka's own quickstart sets this too.
    override = "group.initial.rebalance.delay.ms=0"
    options = ["--nodes", str(NODES), "--base-port", str(free_ports(2 * NODES)), "--data", data / "cluster"]
    command = [OTTLA, "cluster", "up", *options, "--override", override]
    log_file = (data / "cluster.log").open("w")
    cluster = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log_file, text=True, start_new_session=True
    )
    assert cluster.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, cluster.kill)
    timer.start()
    for line in cluster.stdout:
        if line.startswith("READY "):
            timer.cancel()
            return cluster, line.split("bootstrap=")[1].split()[0]
    timer.cancel()
    raise DemoError(f"the cluster did not start; {data / 'cluster.log'} says why.")


def stop_cluster(cluster: "subprocess.Popen[str]") -> int:
    """Stop it as Kubernetes would; returns its exit code."""
    cluster.send_signal(signal.SIGTERM)
    try:
        return cluster.wait(START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        cluster.kill()
        return cluster.wait()


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has."""
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


def create_topic(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topic = NewTopic(TOPIC, partitions, NODES, config={"min.insync.replicas": str(MIN_IN_SYNC)})
    admin.create_topics([topic])[TOPIC].result(START_TIMEOUT_S)


def make_failure(data: Path, bootstrap: str, topic: str) -> Failure:
    return Failure(data / "cluster", [OTTLA, "cluster", "start-node"], bootstrap, topic)
