"""Offset commits of consumer groups: their rate and their CPU cost."""

import socket
import struct
import time
import uuid
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks import clients, frames, load
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan

OFFSET_COMMIT, COMMIT_VERSION = 8, 7
COMMITTERS = 32  # groups, each on a connection of its own
WAIT_LIMIT_S = 60.0
ERROR_LOADING = {14, 15, 16}  # coordinators of a fresh server
COMMIT_GOALS = {"CPU us/commit": 0.5}


# ---- commits -------------------------------------------------------------------------------------


def commit_frame(group: str, topic: str, partitions: int) -> bytes:
    """Return an OffsetCommit of `partitions` partitions by no member of the group, with its size."""
    body = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    body += struct.pack(">i", 1) + _text(topic) + struct.pack(">i", partitions)
    body += b"".join(struct.pack(">iqi", index, 1, -1) + _text("") for index in range(partitions))
    frame = frames.header(OFFSET_COMMIT, COMMIT_VERSION) + body
    return struct.pack(">i", len(frame)) + frame


def commit_error_at(topic: str) -> int:
    """Return the position of the first partition's error code in a response, size prefix included."""
    return 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def commits(partitions: int) -> Callable[[Server, Plan], Figures]:
    """Return a workload of pipelined commits of `partitions` offsets each, by several groups at once."""

    def run(server: Server, plan: Plan) -> Figures:
        topic = clients.create_topic(server.bootstrap, partitions)
        error_at = commit_error_at(topic)
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
    """Look for a coordinator until there is one, which makes the server create `__consumer_offsets`."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, **clients.QUIET})
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        try:
            admin.describe_consumer_groups([group])[group].result(WAIT_LIMIT_S)
            return
        except KafkaException:  # the coordinator is still loading
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def until_loaded(connection: socket.socket, frame: bytes, answer_bytes: int, error_at: int) -> None:
    """Commit once, as soon as the coordinator has loaded."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while True:
        connection.sendall(frame)
        answer = bytearray(answer_bytes)
        load.receive_exactly(connection, memoryview(answer))
        error = struct.unpack_from(">h", answer, error_at)[0]
        if error not in ERROR_LOADING or time.monotonic() > deadline:
            load.check(answer, error_at)
            return
        time.sleep(0.1)
