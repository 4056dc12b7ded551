"""Limits on what clients can do to a node: they cannot fill its memory, kill it or cause stack traces."""

import random
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.node.net.connection_reserve import MAX_LOCAL
from tests.compat.batches import batch
from tests.compat.servers import Server, StartNode, descendants_of, start_ottla
from tests.compat.wire_client import Closed, WireClient, eventually, only

MEGABYTE = 1 << 20
GREEDY_CONNECTIONS = 50
GREEDY_BYTES = 100 * MEGABYTE - 1
FUZZ_SEED = 20261121
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_ottla(tmp_path_factory.mktemp("limits"), "group.initial.rebalance.delay.ms=0")
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.output(), server.output()[-3000:]


def rss_bytes(server: Server) -> int:
    total = 0
    for pid in [server.process.pid, *descendants_of(server.process.pid)]:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), flags=re.M)
        total += int(found[1]) * 1024 if found else 0
    return total


def serves(server: Server) -> bool:
    with WireClient(server.bootstrap) as client:
        return bool(client.call("metadata", 12, topics=[]).brokers)


def test_50_connections_that_announce_100_megabytes_cost_little(node: Server) -> None:
    assert serves(node)
    before = rss_bytes(node)
    greedy = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(GREEDY_CONNECTIONS)]
    try:
        header = struct.pack(">ihhih", GREEDY_BYTES, 0, 9, 1, -1)
        for connection in greedy:
            connection.sendall(header + bytes(1024 - len(header)))
        time.sleep(0.5)

        assert rss_bytes(node) - before < 20 * MEGABYTE
        assert serves(node)
    finally:
        for connection in greedy:
            connection.close()


def requests() -> list[bytes]:
    """Return valid frames of many APIs, to be corrupted."""
    maker = object.__new__(WireClient)
    maker.client_id, maker.correlation_id = "fuzz", 0
    produced = [{"name": "fuzz", "partition_data": [{"index": 0, "records": batch([b"a" * 50])}]}]
    fetched = [
        {"topic": "fuzz", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}]}
    ]
    return [
        maker.frame("produce", 9, acks=1, timeout_ms=100, topic_data=produced),
        maker.frame("produce", 3, acks=1, timeout_ms=100, topic_data=produced),
        maker.frame("fetch", 11, max_wait_ms=0, min_bytes=0, topics=fetched),
        maker.frame("fetch", 12, max_wait_ms=0, min_bytes=0, topics=fetched),
        maker.frame("metadata", 12, topics=[{"name": "fuzz"}]),
        maker.frame("metadata", 1, topics=None),
        maker.frame(
            "create_topics", 7, topics=[{"name": "fuzz", "num_partitions": 1, "replication_factor": 1}]
        ),
        maker.frame("describe_configs", 4, resources=[{"resource_type": 2, "resource_name": "fuzz"}]),
        maker.frame(
            "join_group", 7, group_id="fuzz", session_timeout_ms=6000, member_id="", protocol_type="c"
        ),
        maker.frame("offset_fetch", 8, groups=[{"group_id": "fuzz", "topics": None}]),
        maker.frame("list_offsets", 7, replica_id=-1, topics=[{"name": "fuzz", "partitions": []}]),
        maker.frame("api_versions", 3, client_software_name="fuzz", client_software_version="1"),
        maker.frame("find_coordinator", 4, key_type=0, coordinator_keys=["fuzz"]),
        maker.frame("offset_commit", 8, group_id="fuzz", topics=[{"name": "fuzz", "partitions": []}]),
    ]


def broken(frame: bytes, chance: random.Random) -> bytes:
    body = bytearray(frame[4:])
    kind = chance.randrange(5)
    if kind == 0:
        for _ in range(chance.randint(1, 8)):
            body[chance.randrange(len(body))] = chance.randrange(256)
    elif kind == 1:
        del body[chance.randrange(2, len(body)) :]
    elif kind == 2:
        at = chance.randrange(len(body))
        body[at : at + 4] = b"\x7f\xff\xff\xff"
    elif kind == 3:
        at = chance.randrange(8, len(body))
        body[at:at] = chance.randbytes(chance.randint(1, 40))
    else:
        body[0:4] = struct.pack(">hh", chance.randrange(100), chance.randrange(20))
    return struct.pack(">i", len(body)) + bytes(body)


def test_broken_frames_never_kill_the_node_nor_print_a_stack_trace(node: Server) -> None:
    chance = random.Random(FUZZ_SEED)
    frames = requests()
    before = rss_bytes(node)
    for _ in range(1500):
        connection = socket.create_connection(("127.0.0.1", node.port))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            connection.sendall(broken(chance.choice(frames), chance))
            connection.settimeout(0.01)
            connection.recv(65536)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
        finally:
            connection.close()

    assert node.is_running()
    assert serves(node)
    assert "Traceback" not in node.output()
    assert rss_bytes(node) - before < 64 * MEGABYTE


def test_a_malformed_frame_is_one_line_in_the_log(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path)  # a separate node, since messages beyond a rate are only counted
    before = server.output().count("\n")
    with WireClient(server.bootstrap) as client:
        client.send_bytes(struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1))
        assert client.is_closed()

    # The log is written by a thread.
    eventually(lambda: server.output().count("\n"), lambda count: count > before)
    lines = server.output().splitlines()[before:]
    assert len(lines) == 1, lines
    assert "Metadata" in lines[0]


def test_random_bytes_never_kill_the_node(node: Server) -> None:
    chance = random.Random(FUZZ_SEED)
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", node.port)) as connection:
            try:
                connection.sendall(chance.randbytes(chance.randint(1, 3000)))
            except (ConnectionResetError, BrokenPipeError):
                continue

    assert serves(node)
    assert "Traceback" not in node.output()


def test_a_frame_that_comes_byte_by_byte_is_served(node: Server) -> None:
    with WireClient(node.bootstrap) as client:
        client.socket.settimeout(60)
        for byte in client.frame("metadata", 12, topics=[]):
            client.send_bytes(bytes([byte]))

        assert client.receive("metadata", 12, client.correlation_id).brokers


def test_many_pipelined_requests_are_answered_in_order(node: Server) -> None:
    with WireClient(node.bootstrap) as client:
        frames = [client.frame("metadata", 12, topics=[]) for _ in range(500)]
        client.send_bytes(b"".join(frames))

        for number in range(1, 501):
            assert client.receive("metadata", 12, number).brokers


def test_a_client_that_never_reads_does_not_fill_the_memory(node: Server) -> None:
    with WireClient(node.bootstrap) as filler:
        wanted = {"name": "unread", "num_partitions": 1, "replication_factor": 1}
        assert only(filler.call("create_topics", 7, topics=[wanted], timeout_ms=5000).topics).error_code in (
            0,
            36,
        )
        data = [{"name": "unread", "partition_data": [{"index": 0, "records": batch([b"x" * 900_000])}]}]
        for _ in range(5):
            filler.call("produce", 9, acks=1, timeout_ms=5000, topic_data=data)
    before = rss_bytes(node)
    lazy = []
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 50 * MEGABYTE}
    for _ in range(10):
        client = WireClient(node.bootstrap, timeout_s=0.5)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.append(client)
        for _ in range(30):
            try:
                topics = [{"topic": "unread", "partitions": [partition]}]
                client.send("fetch", 11, max_wait_ms=0, min_bytes=0, topics=topics)
            except (Closed, TimeoutError):
                break
    time.sleep(1)

    grown = rss_bytes(node) - before
    for client in lazy:
        client.close()

    # 10 clients x 30 requests x 4.5 MB would be 1.3 GB.
    assert grown < 120 * MEGABYTE
    assert serves(node)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("connections.max.idle.ms=1000", "idle"),
        ("max.connections.per.ip=3", "many"),
        ("max.connections=3", "many"),
    ],
)
def test_connections_are_limited(tmp_path: Path, start_node: StartNode, setting: str, kind: str) -> None:
    server = start_node(tmp_path, setting)
    clients = [WireClient(server.bootstrap) for _ in range(3)]
    for client in clients:
        client.call("api_versions", 0)
    if kind == "idle":
        clients[0].socket.settimeout(60)
        assert clients[0].is_closed()
    else:
        for _ in range(MAX_LOCAL):  # clients on this machine are accepted beyond the limits
            administrator = WireClient(server.bootstrap)
            clients.append(administrator)
            assert administrator.call("metadata", 4).brokers
        extra = WireClient(server.bootstrap)
        extra.socket.settimeout(2)
        try:
            extra.call("metadata", 4)
            served = True
        except (Closed, TimeoutError):
            served = False
        extra.close()
        assert not served
        assert clients[0].call("api_versions", 0).error_code == 0
    for client in clients:
        client.close()
    assert server.stop() == 0


def test_socket_request_max_bytes_closes_larger_frames(tmp_path: Path, start_node: StartNode) -> None:
    server = start_node(tmp_path, "socket.request.max.bytes=100000")
    with WireClient(server.bootstrap) as client:
        client.send_bytes(struct.pack(">i", 100_001))

        assert client.is_closed()
    assert server.stop() == 0
