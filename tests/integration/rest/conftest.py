"""A cluster of three nodes with the REST API for all tests here, and a client that checks statuses.

Use your own names for topics and groups (`name_of`), and leave the nodes unchanged.
"""

import http.client
import json
import logging
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.node.embedded import Cluster

TIMEOUT_S = 60
NO_RETENTION = {"log.initial.task.delay.ms": "3600000"}  # keeps records with old timestamps
SHARED = pytest.StashKey[Cluster]()  # the shared cluster, once a test has used it


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Api:
    """The REST API of one node; `tls` is for https, `headers` go with each request."""

    def __init__(
        self,
        url: str,
        cluster_id: str,
        *,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.url = url
        self.cluster_id = cluster_id
        self.tls = tls
        self.headers = headers or {}
        self.v3 = f"/v3/clusters/{cluster_id}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Reply:
        """Send a request; if the path is a whole URL, such as a link, to the node in it."""
        parts = urlsplit(path if path.startswith(("http:", "https:")) else self.url + path)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if body is not None:
            content = json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if content is not None else {}
        connection = self.connection(str(parts.hostname), parts.port)
        try:
            sent = {**given, **self.headers, **(headers or {})}
            connection.request(method, target, body=content, headers=sent)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def connection(self, host: str, port: int | None) -> http.client.HTTPConnection:
        """Open a connection to the node."""
        if self.tls is None:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.tls)

    def get(self, path: str, status: int = 200) -> Any:
        return self._json(self.ask("GET", path), status)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._json(self.ask("POST", path, body), status)

    def put(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._json(self.ask("PUT", path, body), status)

    def patch(self, path: str, body: Any = None, status: int = 200) -> Any:
        return self._json(self.ask("PATCH", path, body), status)

    def delete(self, path: str, status: int = 204) -> Any:
        return self._json(self.ask("DELETE", path), status)

    @staticmethod
    def _json(reply: Reply, status: int) -> Any:
        assert reply.status == status, (reply.status, reply.content[:1000])
        return reply.json if reply.content else None


@pytest.fixture(scope="session")
def rest_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Start three nodes for all tests of the session."""
    with Cluster(nodes=3, rest=True, overrides=NO_RETENTION) as cluster:
        pytestconfig.stash[SHARED] = cluster
        yield cluster
        del pytestconfig.stash[SHARED]


@pytest.fixture(scope="module", autouse=True)
def topics_go_with_their_tests(pytestconfig: pytest.Config) -> Iterator[None]:
    """Delete the topics of a file's tests after the last of them.

    Each partition keeps nine files open, and the lists of all topics would show it.
    """
    yield
    cluster = pytestconfig.stash.get(SHARED, None)
    if cluster is not None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        left = [name for name in admin.list_topics(timeout=TIMEOUT_S).topics if not name.startswith("__")]
        for deleted in admin.delete_topics(left).values() if left else ():
            with suppress(KafkaException):  # it is being deleted already
                deleted.result(TIMEOUT_S)


@pytest.fixture(scope="session")
def apis(rest_cluster: Cluster) -> list[Api]:
    """Return the API of each node."""
    return [Api(url, rest_cluster.cluster_id) for url in rest_cluster.rest_urls]


@pytest.fixture(scope="session")
def api(apis: list[Api]) -> Api:
    """Return the API of one node."""
    return apis[0]


def name_of(prefix: str) -> str:
    """Return a name that no other test uses."""
    return f"{prefix}-{uuid4().hex[:8]}"


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Return the log with its tracebacks: `caplog.text` is JSON if PySpark has been imported."""
    return "\n".join(logging.Formatter().format(one) for one in caplog.records)


def eventually(holds: Callable[[], Any], condition: str = "it comes true") -> Any:
    """Return the result of `holds` once it is true; a failed assertion in it counts as not yet true."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            if found := holds():
                return found
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {condition}"
        time.sleep(0.05)
