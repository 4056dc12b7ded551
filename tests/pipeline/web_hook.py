"""A web hook that answers as a test tells it to, and remembers what it was asked."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; `is_cut`: the connection ends instead."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_cut: bool = False


class WebHook:
    """Serves until it is closed; `answer` says what each request gets."""

    def __init__(self, answer: Callable[[Asked], Reply] = lambda _asked: Reply()) -> None:
        self.asked: list[Asked] = []
        self.answer = answer
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
                asked = Asked(method=self.command, path=self.path, headers=dict(self.headers), body=body)
                hook.asked.append(asked)
                reply = hook.answer(asked)
                if reply.is_cut:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_PUT = do_POST

            def log_message(self, *_: Any) -> None:
                """Nothing: the test says what it wants to see."""

        return Handler
