"""Frames that no honest client sends, and functions that send them and read only parts of the responses."""

import struct
import time
from collections import Counter
from typing import Any, Final

from attacks.nodes import Nodes
from ottla.logstore.words.errors import ErrorCode
from tests.compat.wire_client import Closed, eventually

TIMEOUT_S: Final = 300.0  # an attack that is served slowly is judged by its CPU seconds
FLOOD_S: Final = 3.0


def ask(nodes: Nodes, api: str, version: int, **fields: Any) -> str:
    """Send one request; return its error codes by name, or "connection closed"."""
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        try:
            answer = client.call(api, version, **fields)
        except (Closed, BrokenPipeError, ConnectionResetError):
            return "connection closed"
        return in_words(codes_in(answer))


def at_leader(nodes: Nodes, topic: str) -> Nodes:
    """Return the nodes with the leader of a topic's first partition as the attacked node."""
    with nodes.connect() as client:

        def leader() -> int:
            (described,) = client.call("metadata", 12, topics=[{"name": topic}]).topics
            return next((int(one.leader_id) for one in described.partitions if not one.partition_index), -1)

        found = eventually(leader, lambda one: one >= 0)
    return next(one for one in nodes.each() if one.attacked == found)


def flood(nodes: Nodes, frame: bytes, bytes_per_s: float, seconds: float = FLOOD_S) -> int:
    """Send the frame repeatedly, at no more than this rate; return the number of responses."""
    period_s = len(frame) / bytes_per_s
    began, sent = time.monotonic(), 0
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        try:
            while (now := time.monotonic()) < began + seconds:
                if sent * period_s > now - began:
                    time.sleep(sent * period_s - (now - began))
                client.send_bytes(frame)
                client.receive_frame()
                sent += 1
        except Closed:
            return sent
    return sent


def codes_in(answer: Any) -> Counter[int]:
    """Return the values of all fields whose name ends with error_code, at any depth, with their counts."""
    found: Counter[int] = Counter()
    waiting = [answer]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list | tuple):
            waiting += one
        elif hasattr(type(one), "__schema__"):
            for name, value in vars(one).items():
                if name.endswith("error_code"):
                    found[value] += 1
                else:
                    waiting.append(value)
    return found


def in_words(codes: Counter[int]) -> str:
    """Return error codes as text: their counts and names."""
    counted = [f"{count} x {ErrorCode(code).name}" for code, count in sorted(codes.items())]
    return ", ".join(counted) or "no code"


def strings_frame(api_key: int, version: int, count: int, size: int, tail: bytes = b"") -> bytes:
    """Return a request of an old version that starts with an array of strings; fast to build at any size."""
    element = struct.pack(">h", size) + b"x" * size
    body = struct.pack(">i", count) + element * count + tail
    header = struct.pack(">hhih", api_key, version, 1, 6) + b"attack"
    return struct.pack(">i", len(header) + len(body)) + header + body
