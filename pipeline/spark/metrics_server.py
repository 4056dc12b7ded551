"""Metrics of a session's queries over HTTP: `serve_metrics(spark, port=9464)`."""

from functools import cached_property
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from ottla.pipeline.client.clock import wall_ms
from ottla.pipeline.spark.progress_listener import java_listener
from ottla.pipeline.spark.query_metrics import QueryMetrics

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# A client that connects and sends no request delays the others for this long, as they are served in turn.
REQUEST_TIMEOUT_S: Final = 2.0


class MetricsListener(StreamingQueryListener):
    """Passes the events of all queries of a session to `metrics`; Spark calls it in its own threads."""

    def __init__(self, metrics: QueryMetrics) -> None:
        self._metrics = metrics

    @cached_property
    def _jlistener(self) -> "JavaObject":
        return java_listener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._metrics.started(str(event.runId), event.name or str(event.id), wall_ms())

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._metrics.progressed(dict(event.progress), wall_ms())

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._metrics.idled(str(event.runId), wall_ms())

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._metrics.ended(str(event.runId))


class MetricsServer:
    """Answers `GET /metrics` with the text of `metrics` until it is closed."""

    def __init__(self, metrics: QueryMetrics, *, host: str, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_TIMEOUT_S

            def do_GET(self) -> None:
                is_known = self.path.partition("?")[0] == PATH
                content = metrics.text(wall_ms()) if is_known else f"Only {PATH} is served here.\n"
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Type", CONTENT_TYPE)
                body = content.encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: scrapes are routine."""

        self._server = _Server((host, port), Handler)
        self._thread = Thread(target=self._server.serve_forever, name="ottla-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on, also if 0 was requested."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(HTTPServer):
    """An HTTP server that does not resolve its own name, and is silent about clients that go away."""

    def server_bind(self) -> None:
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a client that leaves in the middle of its answer is not our failure."""


def serve_metrics(spark: SparkSession, *, port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serve metrics of the session's queries, also of those already running, at `http://HOST:PORT/metrics`.

    Raises OSError if the port is not available. Any client that reaches the address may read names of queries
    and topics.
    """
    metrics = QueryMetrics()
    server = MetricsServer(metrics, host=host, port=port)
    spark.streams.addListener(MetricsListener(metrics))
    return server
