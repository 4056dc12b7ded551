"""A raw client for the tests: one socket, requests by name as plain dicts, responses as decoded messages.

    client = WireClient("127.0.0.1:9092")
    answer = client.call("metadata", 12, topics=[{"name": "flights"}])
The caller chooses versions, nothing is retried, and a closed connection raises `Closed`.
"""

import importlib
import socket
import struct
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

from ottla.logstore.words.schema import Kind, schema_of
from ottla.logstore.words.schema_compiler import decode, encode

T = TypeVar("T")
CALL_TIMEOUT_S = 60.0
EVENTUALLY_S = 60.0
RECEIVE_BYTES = 1 << 16
SILENCE_S = 0.3  # the time without a byte that counts as no response
API_VERSIONS_KEY = 18


class Closed(Exception):
    """The server closed the connection."""


@cache
def message_class(api: str, kind: str) -> Any:
    """Return the class of `ottla.node.wire.messages.<api>` of a kind: "Request" or "Response"."""
    module = importlib.import_module(f"ottla.node.wire.messages.{api}")
    for value in vars(module).values():
        if isinstance(value, type) and hasattr(value, "__schema__"):
            schema = schema_of(value)
            if schema.api_key is not None and schema.name.endswith(kind):
                return value
    raise LookupError(f"{api} has no {kind}")


def build(cls: Any, fields: dict[str, Any]) -> Any:
    """Return a message made from nested dicts and lists."""
    declared = {field.name: field for field in schema_of(cls).fields}
    made = {}
    for name, value in fields.items():
        field = declared[name]
        if field.kind is Kind.STRUCT and value is not None:
            value = [build(field.of, one) for one in value] if field.is_array else build(field.of, value)
        made[name] = value
    return cls(**made)


def plain(value: Any, version: int) -> Any:
    """Return a decoded message as nested dicts of the fields that the version has."""
    if isinstance(value, list | tuple):
        return [plain(one, version) for one in value]
    if hasattr(type(value), "__schema__"):
        fields = [field for field in schema_of(type(value)).fields if field.is_in(version)]
        return {field.name: plain(getattr(value, field.name), version) for field in fields}
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def eventually(question: Callable[[], T], good: Callable[[T], bool], seconds: float = EVENTUALLY_S) -> T:
    """Ask until the answer is good or time is over; return the last one, so that an assertion can show it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if good(answer) or time.monotonic() > deadline:
            return answer
        time.sleep(0.05)


class WireClient:
    """One connection to `host:port`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str | None = "trap",
        timeout_s: float = CALL_TIMEOUT_S,
        wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain,
        source: str = "",
    ) -> None:
        """Connect, from the address `source` if there is one; `wrap` may put TLS around the socket."""
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap, self.client_id = bootstrap, client_id
        plain = socket.create_connection(
            (host, int(port)), timeout_s, source_address=(source, 0) if source else None
        )
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.socket = wrap(plain)
        except BaseException:
            plain.close()
            raise
        self.buffer = bytearray()
        self.correlation_id = 0

    def __enter__(self) -> "WireClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def frame(self, api: str, version: int, tail: bytes = b"", **fields: Any) -> bytes:
        """Return a request as bytes, with its size and a new correlation id; `tail` is appended as is."""
        cls = message_class(api, "Request")
        return self.frame_of(
            schema_of(cls).api_key or 0, version, encode(build(cls, fields), version) + tail, cls
        )

    def frame_of(self, api_key: int, version: int, body: bytes, cls: Any = None) -> bytes:
        self.correlation_id += 1
        header = struct.pack(">hhi", api_key, version, self.correlation_id)
        if self.client_id is None:
            header += struct.pack(">h", -1)
        else:
            header += struct.pack(">h", len(self.client_id)) + self.client_id.encode()
        if cls is not None and schema_of(cls).is_flexible(version):
            header += b"\0"
        return struct.pack(">i", len(header) + len(body)) + header + body

    def send(self, api: str, version: int, **fields: Any) -> int:
        """Send a request without waiting, and return its correlation id."""
        self.send_bytes(self.frame(api, version, **fields))
        return self.correlation_id

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as failure:
            raise Closed from failure

    def receive_frame(self) -> bytes:
        """Return the next response without its size; raises Closed at the end of the connection."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack_from(">i", self.buffer)[0]:
            try:
                data = self.socket.recv(RECEIVE_BYTES)
            except ConnectionResetError as failure:
                raise Closed from failure
            if not data:
                raise Closed
            self.buffer += data
        size = struct.unpack_from(">i", self.buffer)[0]
        frame = bytes(self.buffer[4 : 4 + size])
        del self.buffer[: 4 + size]
        return frame

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        """Return the next response, which must be the one to this request."""
        frame = self.receive_frame()
        assert struct.unpack_from(">i", frame)[0] == correlation_id, (
            "answers come in the order of the requests"
        )
        cls = message_class(api, "Response")
        has_tags = schema_of(cls).is_flexible(version) and schema_of(cls).api_key != API_VERSIONS_KEY
        at = 5 if has_tags else 4
        assert not has_tags or frame[4] == 0, "no tagged fields in a response header"
        return decode(cls, version, frame[at:])

    def call(self, api: str, version: int, **fields: Any) -> Any:
        return self.receive(api, version, self.send(api, version, **fields))

    def is_silent(self, seconds: float = SILENCE_S) -> bool:
        """Return True if nothing arrives for this time and the connection stays open."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            return True
        except ConnectionResetError:
            return False
        finally:
            self.socket.settimeout(before)
        self.buffer += data
        return False

    def is_closed(self) -> bool:
        """Return True if the server closes the connection without sending another byte."""
        try:
            self.receive_frame()
        except Closed:
            return True
        except TimeoutError:
            return False
        return False


def only(items: Iterable[T]) -> T:
    """Return the only item."""
    (item,) = items
    return item
