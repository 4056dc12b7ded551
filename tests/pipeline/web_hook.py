"""A web hook that answers as a test defines, and remembers its requests."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; `is_cut`: the connection ends instead; `is_endless`: its body continues byte by byte."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_cut: bool = False
    is_endless: bool = False


class WebHook:
    """A server that runs until it is closed.

    `answer` returns the reply to each request; `abandoned` counts endless answers that clients did not wait
    for.
    """

    def __init__(self, answer: Callable[[Request], Reply] = lambda _request: Reply()) -> None:
        self.requests: list[Request] = []
        self.answer = answer
        self.abandoned = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(method=self.command, path=self.path, headers=dict(self.headers), body=body)
                hook.requests.append(request)
                reply = hook.answer(request)
                if reply.is_cut:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                if reply.is_endless:
                    self._send_endlessly()
                    return
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_PUT = do_POST

            def _send_endlessly(self) -> None:
                """Send for half a minute, as a test must end."""
                self.close_connection = True
                self.end_headers()
                try:
                    for _ in range(3_000):
                        self.wfile.write(b".")
                        time.sleep(0.01)
                except OSError:
                    hook.abandoned += 1

            def log_message(self, *_: Any) -> None:
                """Log nothing: tests check what they need."""

        return Handler
