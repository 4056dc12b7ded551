"""The time that a coordinator takes to load a partition of `__consumer_offsets` after a restart.

The workload starts a server of its own, commits a million offsets of one group, and restarts the server.
Groups of that partition cannot be served before it is loaded; groups of an empty partition can.
"""

import signal
import tempfile
import time
from pathlib import Path

from benchmarks import clients, groups, load, servers
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan
from ottla.node.wire import codec
from ottla.node.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

REQUESTS, PARTITIONS, IN_FLIGHT = 10_000, 100, 10
OFFSET_FETCH, FETCH_VERSION = 9, 5
LOADED, EMPTY = "loaded", "empty-1"  # groups with different partitions of the 50 of __consumer_offsets
WAIT_LIMIT_S = 120.0


def load_of_offsets(running: Server, plan: Plan) -> Figures:
    """Measure the seconds from the start of the process until OffsetFetch succeeds, for either group."""
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        data = Path(folder) / "data"
        server = servers.start(running.name, data)
        topic = clients.create_topic(server.bootstrap, PARTITIONS)
        for group in (LOADED, EMPTY):
            groups.make_offsets_topic(server, group)
        _commit(server, topic)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(servers.STOP_TIMEOUT_S)
        server = servers.start(running.name, data)
        try:
            began_s = server.started_at_s()
            empty_s = _time_until_served(server, EMPTY, topic) - began_s
            loaded_s = _time_until_served(server, LOADED, topic) - began_s
        finally:
            server.stop()
    return {"offsets are reported after s": loaded_s, "those of an empty one after s": empty_s}


def _commit(server: Server, topic: str) -> None:
    frame = groups.commit_frame(LOADED, topic, PARTITIONS)
    error_at = groups.commit_error_at(topic)
    answer_bytes = error_at - 4 + PARTITIONS * 6
    with load.connect(server.port) as connection:
        groups.until_loaded(connection, frame, answer_bytes, error_at)
        answer = bytearray(answer_bytes)
        for number in range(REQUESTS + IN_FLIGHT):
            if number < REQUESTS:
                connection.sendall(frame)
            if number >= IN_FLIGHT:
                load.receive_exactly(connection, memoryview(answer))
                load.check(answer, error_at)


def _time_until_served(server: Server, group: str, topic: str) -> float:
    """Return the time when OffsetFetch of the group succeeds, on the clock of time.CLOCK_BOOTTIME."""
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    frame = b"".join(codec.encode_request(OFFSET_FETCH, FETCH_VERSION, 0, "bench", request))
    deadline = time.monotonic() + WAIT_LIMIT_S
    with load.connect(server.port) as connection:
        while True:
            connection.sendall(frame)
            size = bytearray(4)
            load.receive_exactly(connection, memoryview(size))
            answer = bytearray(int.from_bytes(size, "big"))
            load.receive_exactly(connection, memoryview(answer))
            error = codec.decode_response(OFFSET_FETCH, FETCH_VERSION, answer)[1].error_code
            if not error:
                return time.clock_gettime(time.CLOCK_BOOTTIME)
            if error not in groups.ERROR_LOADING or time.monotonic() > deadline:
                raise RuntimeError(f"OffsetFetch of {group} got error {error}")
            time.sleep(0.002)
