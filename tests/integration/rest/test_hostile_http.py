"""Bytes that are not HTTP, bodies that never arrive, many connections: other clients are still served."""

import selectors
import socket
import struct
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from ottla.node.client.record_batches import PartitionQueue
from ottla.node.embedded import Cluster
from ottla.node.rest_api import answer_room, body_room, connections, http_request
from ottla.node.rest_api.request_turns import Arrival, RequestTurns
from tests.integration.rest.conftest import TIMEOUT_S, Api, eventually, logged
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow


def send(api: Api, content: bytes) -> bytes:
    """Return the answer to these bytes: the head of a response, or nothing if the connection was closed."""
    parts = urlsplit(api.url)
    with socket.create_connection((str(parts.hostname), parts.port), timeout=TIMEOUT_S) as connection:
        with suppress(ConnectionError):  # the answer, and the close, may come before all is sent
            connection.sendall(content)
        received = b""
        while b"\r\n\r\n" not in received and (piece := connection.recv(65536)):
            received += piece
        return received


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\x03" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"\x00\x00\x00\x10\x00\x12\x00\x04\x00\x00\x00\x01\x00\x02ab",  # ApiVersions of Kafka's
        b"GET /v3/clusters HTTP/1.1\r\n\r\n",
        b"GET /v3/clusters HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
        b"GET /v3/clusters HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://evil.example/v3/clusters HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/v3/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/v3/clusters HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /v3/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v3/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"POST /v3/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_malformed_requests_are_rejected_and_other_clients_are_served(api: Api, content: bytes) -> None:
    received = send(api, content)

    assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), received[:200]
    assert b"Traceback" not in received and b"aiohttp" not in received and b"Python" not in received
    assert api.get("/v3/clusters")["data"]


def test_a_huge_content_length_is_rejected_before_the_body(api: Api) -> None:
    head = (
        f"POST {api.v3}/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )

    received = send(api, head.encode() + b"{")

    assert received.startswith(b"HTTP/1.1 413 ")


def test_a_chunked_body_is_read_no_further_than_its_limit(api: Api) -> None:
    head = (
        f"POST {api.v3}/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"

    received = send(api, head.encode() + piece * 11)

    assert received.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", ["/topics", "/topics/{topic}/records"])
def test_simultaneous_bodies_share_a_limit_of_memory(rest_cluster: Cluster, api: Api, path: str) -> None:
    """Each connection sends an incomplete document, as large as a body may be."""
    topic = create(rest_cluster)
    parts = urlsplit(api.url)
    head = (
        f"POST {api.v3}{path.format(topic=topic)} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {10 * 2**20}\r\n\r\n"
    )
    with ExitStack() as stack:
        watched = stack.enter_context(selectors.DefaultSelector())
        for _ in range(body_room.ROOM_BYTES // 2**20 // 9 + 1):
            address = str(parts.hostname), parts.port
            sender = stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S))
            watched.register(sender, selectors.EVENT_READ)
            sender.sendall(head.encode() + b'{"topic_name": "' + b"x" * 9 * 2**20)
        # The connection for which no room is left is rejected before the time limit of a body.
        received = b""
        while (
            b'{"error_code":429,"message":"Too many request bodies are being received; try again later."}'
            not in received
        ):
            answered = watched.select(http_request.BODY_TIMEOUT_S / 2)
            assert answered, received[:500]
            for key, _ in answered:
                piece = b""
                with suppress(ConnectionError):
                    piece = key.fileobj.recv(65536)  # type: ignore[union-attr]
                received += piece
                if not piece:
                    watched.unregister(key.fileobj)
        assert api.get("/v3/clusters")["data"]

    eventually(lambda: api.ask("POST", f"{api.v3}/topics", {"topic_name": "."}).status == 422)


def test_no_path_leads_to_a_file_outside_the_console(api: Api) -> None:
    for path in (
        "/../../etc/passwd",
        "/v3/../../etc/passwd",
        "/console/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
    ):
        received = send(api, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        assert received.split(b" ")[1] in (b"400", b"404"), (path, received[:200])
        assert b"root:" not in received


# The nodes of the tests run in this process, so limits that a test patches apply to them.


def connect(api: Api, *, receive_bytes: int | None = None) -> socket.socket:
    """Open a connection, with a small receive buffer in the kernel if a size is given."""
    parts = urlsplit(api.url)
    connection = socket.socket(socket.AF_INET)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(TIMEOUT_S)
    connection.connect((str(parts.hostname), parts.port))
    return connection


def test_idle_connections_keep_no_client_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(api)) for _ in range(8)]
        for each in silent[::2]:
            each.sendall(b"POST /v3/x HTTP/1.1\r\nHost: loc")

        for path in ("/healthz", "/readyz", "/v3/clusters"):
            assert api.get(path)

        assert silent[0].recv(1) == b""  # the one that was idle for longest


def test_bodies_that_never_arrive_keep_no_client_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with ExitStack() as stack:
        for _ in range(8):
            sender = stack.enter_context(connect(api))
            sender.sendall(_head(api, "topics", "Content-Length: 100") + b"{")

        assert api.get("/healthz")


def test_a_client_that_does_not_read_is_disconnected(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_TIMEOUT_S", 0.05)
    with connect(api, receive_bytes=4096) as slow_client:
        slow_client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)

        eventually(lambda: _is_reset(slow_client), "a connection that does not read is ended")


def _is_reset(connection: socket.socket) -> bool:
    """Return True if the peer has reset the connection, even if data of it is unread."""
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
    except ConnectionError:
        return True
    return False


def test_a_page_without_room_ends_early(
    rest_cluster: Cluster, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(rest_cluster, partitions=2)
    value = {"type": "STRING", "data": "x" * 1000}
    entries = [{"id": str(number), "partition_id": number % 2, "value": value} for number in range(40)]
    assert not api.post(f"{api.v3}/topics/{topic}/records:batch", {"entries": entries}, 207)["failures"]
    pages: list[dict[str, Any]] = []
    with connect(api, receive_bytes=4096) as slow_client:
        slow_client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        # Twice the answers being sent, plus room for some records.
        held_bytes = len(api.ask("GET", "/openapi.json").content)
        limit = property(lambda room: held_bytes + 30_000, lambda room, limit_bytes: None)
        monkeypatch.setattr(answer_room.AnswerRoom, "limit_bytes", limit, raising=False)
        monkeypatch.setattr(answer_room, "MIN_LEAVING_S", 1e9)  # also on a slow machine

        def has_ended_early() -> bool:
            pages[:] = [api.get(f"{api.v3}/topics/{topic}/records?timeout_ms=20000")]
            return not pages[0]["is_end"]

        eventually(has_ended_early, "an answer that its client does not read takes room")
    monkeypatch.undo()
    while pages[-1]["metadata"]["next"]:
        pages.append(api.get(pages[-1]["metadata"]["next"]))

    places = [(one["partition_id"], one["offset"]) for page in pages for one in page["data"]]
    assert len(pages) == 2 and 0 < len(pages[0]["data"]) < 40
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(20)]


def test_an_idle_connection_is_closed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST_REQUEST_TIMEOUT_S", 0.05)

    assert send(api, b"GET /v3/clusters HTTP/1.1\r\nHost: loc") == b""


def test_a_body_that_never_arrives_has_a_time_limit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "BODY_TIMEOUT_S", 0.05)

    received = send(api, _head(api, "topics", "Content-Length: 100") + b'{"topic_')

    assert received.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("length", "body"),
    [
        ("Content-Length: 100", b'{"topic_'),
        ("Transfer-Encoding: chunked", b'5\r\n{"top'),
        ("Transfer-Encoding: chunked", b'3\r\n{"t\r\n'),
    ],
)
@pytest.mark.parametrize("path", ["topics", "topics/{topic}/records"])
def test_a_truncated_body_is_reported_at_once(
    rest_cluster: Cluster, api: Api, path: str, length: str, body: bytes
) -> None:
    topic = create(rest_cluster)
    with connect(api) as sender:
        sender.sendall(_head(api, path.format(topic=topic), length) + body)
        sender.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: sender.recv(65536), b""))

    assert b'"error_code":400' in received


def _head(api: Api, path: str, length: str) -> bytes:
    head = f"POST {api.v3}/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}{length}\r\n\r\n".encode()


def test_requests_that_arrive_together_take_a_turn_each(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, one turn of the loop wrote megabytes of answers, and probes waited for seconds."""
    lines: list[bytes] = []
    take_turn = RequestTurns.take_turn

    def noted(turns: RequestTurns, arrival: Arrival, address: str, data: bytes) -> bool:
        lines.append(data[:20])
        return take_turn(turns, arrival, address, data)

    monkeypatch.setattr(RequestTurns, "take_turn", noted)
    with connect(api) as sender:
        sender.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30)
        received = b""
        while received.count(b"HTTP/1.1 200 ") < 30:
            received += sender.recv(65536)

    assert lines.count(b"GET /healthz") >= 25, (
        "the first request of each read is served in the turn that reads it"
    )


def test_clients_that_disconnect_at_once_are_not_logged_as_failures_or_false_nodes(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, their addresses could not be read any more, and the node's requests for them failed.

    They were logged as those of a false node.
    """
    read = b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20
    half = _head(api, "topics", "Content-Length: 100") + b"{"
    for number in range(300):
        with connect(api) as leaving:
            leaving.sendall(half if number % 2 else read)
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert api.get("/v3/clusters")["data"]
    messages = [one.getMessage() for one in caplog.records]
    assert not [one for one in messages if "claims to be a node" in one or "failed" in one]


def test_connections_beyond_the_limit_are_closed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 0)
    refused = send(api, b"")  # a request could arrive after the close, which resets the connection
    monkeypatch.undo()

    assert refused == b"" and api.get("/v3/clusters")["data"]


# ---- failures of the node ------------------------------------------------------------------------


def test_a_failed_producer_restarts_and_fails_waiting_requests(
    rest_cluster: Cluster, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{api.v3}/topics/{create(rest_cluster)}/records:batch"
    entries = {"entries": [{"id": "a", "value": {"type": "STRING", "data": "x"}}]}

    def fail(queue: PartitionQueue) -> bytearray:
        raise AssertionError("a bug")

    monkeypatch.setattr(PartitionQueue, "encode", fail)
    failed = api.post(path, entries, 207)
    monkeypatch.undo()
    stored = api.post(path, entries, 207)

    assert [one["error_code"] for one in failed["failures"]] == [50003] and not failed["successes"]
    assert not stored["failures"] and [one["offset"] for one in stored["successes"]] == [0]
    assert "AssertionError: a bug" in logged(caplog)
