"""Bytes that are no HTTP, bodies that never come, many connections: the others are served on."""

import selectors
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from node.embedded import Cluster
from node.rest_api import body_room, http_server
from tests.integration.rest.conftest import Api, eventually
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow


def send(api: Api, content: bytes) -> bytes:
    """What comes back for these bytes: the head of an answer, or nothing but the end of the connection."""
    parts = urlsplit(api.url)
    with socket.create_connection((str(parts.hostname), parts.port), timeout=30) as connection:
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
        b"POST /v3/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v3/clusters HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"POST /v3/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_others_are_served(api: Api, content: bytes) -> None:
    received = send(api, content)

    assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), received[:200]
    assert b"Traceback" not in received
    assert api.get("/v3/clusters")["data"]


def test_a_body_that_says_it_is_huge_is_refused_before_it_comes(api: Api) -> None:
    head = (
        f"POST {api.v3}/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )

    received = send(api, head.encode() + b"{")

    assert received.startswith(b"HTTP/1.1 413 ")


def test_a_body_in_pieces_is_read_no_further_than_its_limit(api: Api) -> None:
    head = (
        f"POST {api.v3}/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"

    received = send(api, head.encode() + piece * 11)

    assert received.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", ["/topics", "/topics/{topic}/records"])
def test_bodies_that_come_at_once_have_so_much_memory_together(
    rest_cluster: Cluster, api: Api, path: str
) -> None:
    """A document without an end on each connection, as much as a body may have."""
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
            sender = stack.enter_context(socket.create_connection(address, timeout=30))
            watched.register(sender, selectors.EVENT_READ)
            sender.sendall(head.encode() + b'{"topic_name": "' + b"x" * 9 * 2**20)
        # Whichever comes when there is no room any more; it is refused before its time is over.
        received = b""
        while b'{"error_code":429,"message":"Too many bodies come at once."}' not in received:
            answered = watched.select(http_server.BODY_TIMEOUT_S / 2)
            assert answered, received[:500]
            for key, _ in answered:
                piece = key.fileobj.recv(65536)  # type: ignore[union-attr]
                received += piece
                if not piece:
                    watched.unregister(key.fileobj)
        assert api.get("/v3/clusters")["data"]

    eventually(lambda: api.ask("POST", f"{api.v3}/topics", {"topic_name": "."}).status == 422)


def test_paths_that_lead_up_lead_nowhere(api: Api) -> None:
    for path in (
        "/../../etc/passwd",
        "/v3/../../etc/passwd",
        "/console/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
    ):
        received = send(api, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

        assert received.split(b" ")[1] in (b"400", b"404"), (path, received[:200])
        assert b"root:" not in received


def test_many_connections_that_ask_nothing_keep_nobody_out(api: Api) -> None:
    parts = urlsplit(api.url)
    silent = [socket.create_connection((str(parts.hostname), parts.port), timeout=30) for _ in range(200)]
    try:
        assert api.get("/v3/clusters")["data"]
    finally:
        for connection in silent:
            connection.close()


# The nodes of the tests live in this process, so its limits are theirs.


def test_who_connects_and_asks_nothing_is_let_go(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "FIRST_REQUEST_TIMEOUT_S", 0.05)

    assert send(api, b"GET /v3/clusters HTTP/1.1\r\nHost: loc") == b""


def test_a_body_that_does_not_come_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_TIMEOUT_S", 0.05)
    head = (
        f"POST {api.v3}/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n"
    )

    assert send(api, head.encode() + b'{"topic_').startswith(b"HTTP/1.1 408 ")


def test_connections_beyond_the_limit_are_closed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 0)
    refused = send(api, b"")  # a request could come after the end, which resets the connection
    monkeypatch.undo()

    assert refused == b"" and api.get("/v3/clusters")["data"]
