"""The answer to the bytes of a probe's request: /healthz and /readyz, and nothing else.

Any Host is accepted: a kubelet sends the address of the pod, a load balancer may send anything. The answers
hold nothing that a foreign web page could use, and no request changes anything.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from ottla.node.client.quorum_silence import moment_as_text
from ottla.node.rest_api.node_pulse import ALIVE, READY, NodePulse
from ottla.node.rest_api.readiness import CUT_OFF_SINCE

MAX_HEAD_BYTES: Final = 8 * 1024  # of the request line and all headers; probes send some 200
END_OF_HEAD: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) (?:http://[^/ ]*)?(/[^ ]*) HTTP/1\.[01]")
_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
# Path -> the status and sentence of a healthy node, the status of an unhealthy one, and the check.
_PROBES: Final[Mapping[bytes, tuple[str, str, str, Callable[[NodePulse, float], str | None]]]] = {
    b"/healthz": ("alive", ALIVE, "dead", NodePulse.why_dead),
    b"/readyz": ("ready", READY, "not ready", NodePulse.why_not_ready),
}


def answer_of(head: bytes, pulse: NodePulse, now_s: float) -> bytes:
    """Return the answer to a request that begins with this head, as far as it has been received."""
    if len(head) > MAX_HEAD_BYTES:
        return _refusal(431, f"The request headers are larger than {MAX_HEAD_BYTES} bytes.")
    line = _REQUEST_LINE.fullmatch(head.partition(b"\r\n")[0])
    if line is None:
        return _refusal(400, "This is not an HTTP/1.1 request.")
    method, path = line[1], line[2].partition(b"?")[0]
    has_body = method != b"HEAD"
    if path not in _PROBES:
        return _refusal(404, "This port serves only /healthz and /readyz.", has_body=has_body)
    if method not in (b"GET", b"HEAD"):
        return _refusal(405, "Probes must use GET or HEAD.", {"Allow": "GET, HEAD"})
    good, sentence, bad, check = _PROBES[path]
    problem = check(pulse, now_s)
    cut_off_since_ms = None if pulse.last is None else pulse.last.state.cut_off_since_ms
    headers = {} if cut_off_since_ms is None else {CUT_OFF_SINCE: moment_as_text(cut_off_since_ms)}
    status, word = (200, good) if problem is None else (503, bad)
    return _answer(status, {"status": word, "message": problem or sentence}, headers, has_body=has_body)


def _refusal(
    status: int, message: str, headers: Mapping[str, str] | None = None, *, has_body: bool = True
) -> bytes:
    return _answer(status, {"error_code": status, "message": message}, headers or {}, has_body=has_body)


def _answer(
    status: int, fields: Mapping[str, object], headers: Mapping[str, str], *, has_body: bool
) -> bytes:
    body = orjson.dumps(fields)
    lines = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + END_OF_HEAD + (body if has_body else b"")
