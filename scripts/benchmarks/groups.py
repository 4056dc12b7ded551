"""Consumer groups: how fast they commit, and how long all wait when one joins or leaves."""

import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from benchmarks import clients, frames, load
from benchmarks.servers import Server

if TYPE_CHECKING:
    from benchmarks.workloads import Plan

OFFSET_COMMIT, COMMIT_VERSION = 8, 7
COMMITTERS = 32  # groups, each on a connection of its own
MEMBERS, PARTITIONS = 10, 20
# Members hear of a rebalance with their next heartbeat; the default of 3 s would measure nothing else.
HEARTBEAT_MS = 1000
PATIENCE_S = 60.0
ERROR_LOADING = {14, 15, 16}  # coordinators of a fresh server
GOALS = {"join s": 0.5, "leave s": 0.5}

Figures = dict[str, float]


# ---- commits -------------------------------------------------------------------------------------


def commit_frame(group: str, topic: str, partitions: int) -> bytes:
    """An OffsetCommit of so many partitions from outside the group, with its size."""
    body = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    body += struct.pack(">i", 1) + _text(topic) + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iqi", index, 1, -1) + _text("") for index in range(partitions))
    frame = frames.header(OFFSET_COMMIT, COMMIT_VERSION) + body
    return struct.pack(">i", len(frame)) + frame


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def commits(partitions: int) -> Callable[[Server, "Plan"], Figures]:
    """Commits of `partitions` offsets each, pipelined, by several groups at once."""

    def run(server: Server, plan: "Plan") -> Figures:
        topic = clients.create_topic(server.bootstrap, partitions)
        error_at = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4  # of the first partition
        answer_bytes = error_at - 4 + partitions * 6
        run_id = uuid.uuid4().hex[:8]
        wanted = [commit_frame(f"bench-{run_id}-{number}", topic, partitions) for number in range(COMMITTERS)]

        def replay(seconds: float) -> tuple[float, int]:
            requests = [(load.connect(server.port), frame) for frame in wanted]
            for connection, frame in requests:
                until_loaded(connection, frame, answer_bytes, error_at)
            return load.replay(
                requests,
                answer_bytes=answer_bytes,
                error_at=error_at,
                seconds=seconds,
                in_flight=load.IN_FLIGHT,
            )

        make_offsets_topic(server, f"bench-{run_id}-0")
        replay(1.0)
        before = server.cpu_seconds()
        seconds, answered = replay(plan.seconds)
        cpu = server.cpu_seconds() - before
        clients.delete_topic(server.bootstrap, topic)
        return {"commits/s": answered / seconds, "CPU us/commit": cpu * 1e6 / answered}

    return run


def make_offsets_topic(server: Server, group: str) -> None:
    """Whoever first looks for a coordinator makes a server make `__consumer_offsets`."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, **clients.QUIET})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
            return
        except KafkaException:  # the coordinator that was found is just beginning
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def until_loaded(connection: socket.socket, frame: bytes, answer_bytes: int, error_at: int) -> None:
    """Commit once; a coordinator that has just begun is waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        connection.sendall(frame)
        answer = bytearray(answer_bytes)
        load.receive_exactly(connection, memoryview(answer))
        error = struct.unpack_from(">h", answer, error_at)[0]
        if error not in ERROR_LOADING or time.monotonic() > deadline:
            load.check(answer, error_at)
            return
        time.sleep(0.1)


# ---- members -------------------------------------------------------------------------------------


class Member:
    """A consumer of librdkafka in a thread that polls it; `assigned` is what it owns now."""

    def __init__(self, server: Server, group: str, topic: str, changed: threading.Condition) -> None:
        self.assigned: set[int] = set()
        self._changed, self._stopping = changed, threading.Event()
        settings = {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
        }
        self._consumer = Consumer({**settings, **clients.QUIET})
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke)
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._consumer.poll(0.02)
        self._consumer.close()

    def _assign(self, consumer: Consumer, places: list[Place]) -> None:
        consumer.assign(places)
        with self._changed:
            self.assigned = {place.partition for place in places}
            self._changed.notify_all()

    def _revoke(self, consumer: Consumer, places: list[Place]) -> None:
        consumer.unassign()
        with self._changed:
            self.assigned = set()
            self._changed.notify_all()

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)


def tenth_member(server: Server, plan: "Plan") -> Figures:
    """Seconds from the tenth member's first poll, or its leaving, until all own their shares again."""
    topic, group = clients.create_topic(server.bootstrap, PARTITIONS), f"bench-{uuid.uuid4().hex[:8]}"
    changed = threading.Condition()
    members = [Member(server, group, topic, changed) for _ in range(MEMBERS - 1)]
    try:
        _until_stable(members, changed)
        before = server.cpu_seconds()
        began = time.perf_counter()
        members.append(Member(server, group, topic, changed))
        joined_s = _until_stable(members, changed) - began
        began = time.perf_counter()
        members.pop().leave()
        left_s = _until_stable(members, changed) - began
        cpu = server.cpu_seconds() - before
    finally:
        for member in members:
            member.leave()
    clients.delete_topic(server.bootstrap, topic)
    return {"join s": joined_s, "leave s": left_s, "server CPU s": cpu}


def _until_stable(members: list[Member], changed: threading.Condition) -> float:
    """When every partition was owned once, in even shares."""
    share, more = divmod(PARTITIONS, len(members))
    shares = sorted(share + (number < more) for number in range(len(members)))

    def is_stable() -> bool:
        owned = [member.assigned for member in members]
        return sorted(map(len, owned)) == shares and len(set().union(*owned)) == PARTITIONS

    with changed:
        if not changed.wait_for(is_stable, PATIENCE_S):
            raise RuntimeError(f"{len(members)} members are not stable after {PATIENCE_S:g} s")
        return time.perf_counter()
