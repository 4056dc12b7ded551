"""A cluster under load whose nodes are restarted one after another with other settings."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer

from ottla.node.cli.local_cluster import NodeHome
from tests.integration.cluster.conftest import Cluster, eventually
from tests.ports import free_ports

TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.005  # between records: short enough to notice each gap, long enough to leave CPU to others
ESTABLISHED: Final = "01"  # state of a TCP connection in /proc/net/tcp
# Errors that librdkafka reports for a lost connection or an unavailable broker, and recovers from.
_PASSING: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


def change(home: NodeHome, **settings: object) -> None:
    """Set settings in the file of a node; underscores stand for dots, None removes a setting."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    lines = [line for line in home.properties.read_text().splitlines() if line.partition("=")[0] not in given]
    lines += [f"{name}={value}" for name, value in given.items() if value is not None]
    home.properties.write_text("\n".join(lines) + "\n")


def setting(home: NodeHome, name: str) -> str:
    """Return the value of a setting in the file of a node."""
    lines = home.properties.read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))


def with_listener_of_clients(cluster: Cluster) -> None:
    """Add a listener CLIENTS to each node before its inter-broker listener, which can then be removed."""
    ports = free_ports(len(cluster.homes))
    for home in cluster.homes:
        change(
            home,
            listeners=f"CLIENTS://127.0.0.1:{ports + home.node_id},{setting(home, 'listeners')}",
            listener_security_protocol_map="CLIENTS:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            inter_broker_listener_name="PLAINTEXT",
        )


def without_listener(home: NodeHome, name: str) -> int:
    """Remove a listener of a node, and return its port."""
    listeners = setting(home, "listeners").split(",")
    (gone,) = (one for one in listeners if one.startswith(f"{name}://"))
    protocols = setting(home, "listener.security.protocol.map").split(",")
    change(
        home,
        listeners=",".join(one for one in listeners if one != gone),
        listener_security_protocol_map=",".join(one for one in protocols if not one.startswith(f"{name}:")),
    )
    return int(gone.rpartition(":")[2])


def is_listening(port: int) -> bool:
    """Return True if a process listens on this port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def roll(cluster: Cluster) -> None:
    """Restart the nodes one after another; before the next one, wait until all replicas are in sync."""
    for home in cluster.homes:
        assert cluster.terminate(home.node_id) == 0, cluster.output(home.node_id)[-3000:]
        cluster.start(home.node_id)
        eventually(
            lambda: is_in_sync(cluster),
            f"all replicas are in sync after the restart of node {home.node_id}",
            TIMEOUT_S,
        )


def is_in_sync(cluster: Cluster) -> bool:
    """Return True if every partition of the cluster has a leader and all of its replicas in sync."""
    topics = cluster.admin().list_topics(timeout=TIMEOUT_S).topics.values()
    partitions = [one for topic in topics for one in topic.partitions.values()]
    return all(len(one.isrs) == len(one.replicas) and one.leader >= 0 for one in partitions)


def connected(first_port: int) -> list[bool]:
    """Return whether there is an established connection to each of three ports of this machine."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {int(row[2].rpartition(":")[2], 16) for row in rows if row[3] == ESTABLISHED}
    return [port in ports for port in range(first_port, first_port + 3)]


class Load:
    """A producer with acks=all and a consumer of a group, each in a thread, and the errors they got."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: list[str] = []
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.consumed: Counter[int] = Counter()
        self._topic = topic
        self._is_ending = threading.Event()
        self._has_sent_all = threading.Event()
        common = {"bootstrap.servers": bootstrap, "error_cb": self._note}
        self._producer = Producer({**common, "acks": "all", "enable.idempotence": True, "linger.ms": 1})
        self._consumer = Consumer(
            {
                **common,
                "group.id": f"{topic}-group",
                "auto.offset.reset": "earliest",
                # Without it librdkafka 2.16 stops for ever, once in some 30 runs, if its last connection ends
                # while it validates an offset (its issue 5476).
                "metadata.recovery.strategy": "none",
            }
        )
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]

    def begin(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop the producer, and the consumer once it has read every record."""
        self._is_ending.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive(), "a thread of the load did not end"

    def _note(self, error: KafkaError) -> None:
        if error.code() not in _PASSING:
            self.errors.append(str(error))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(f"not written: {error}")
        else:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.add(int(value))

    def _produce(self) -> None:
        while not self._is_ending.is_set():
            self._producer.produce(self._topic, str(self.sent).encode(), on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
            time.sleep(PAUSE_S)
        if self._producer.flush(TIMEOUT_S):
            self.errors.append("some records were not acknowledged in time")
        self._has_sent_all.set()

    def _consume(self) -> None:
        self._consumer.subscribe([self._topic])
        quiet_since = time.monotonic()
        while not self._has_sent_all.is_set() or (
            len(self.consumed) < self.sent and time.monotonic() - quiet_since < TIMEOUT_S
        ):
            message = self._consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.errors.append(f"not read: {error}")
            elif (value := message.value()) is not None:
                self.consumed[int(value)] += 1
                quiet_since = time.monotonic()
        self._consumer.close()


@contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[Load]:
    """Produce and consume during a block; then check that there were no errors, losses or duplicates."""
    running = Load(cluster.bootstrap, topic)
    running.begin()
    try:
        yield running
    finally:
        running.end()
    assert running.errors == []
    everything = set(range(running.sent))
    assert running.acknowledged == everything
    assert set(running.consumed) == everything, sorted(everything - set(running.consumed))[:10]
    doubled = {value: count for value, count in running.consumed.items() if count > 1}
    assert not doubled, dict(list(doubled.items())[:10])
