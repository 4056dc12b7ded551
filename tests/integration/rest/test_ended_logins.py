"""Live tails, streams and waiting requests end soon after the login with which they began."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.integration.rest.conftest import Api, eventually, name_of
from tests.integration.rest.test_rest_logins import TIMEOUT_S, RestNode, basic

pytestmark = pytest.mark.slow
BOUND_S: Final = 5.0  # as docs/rest.md says
TOPIC: Final = "watched"


@pytest.fixture(scope="module")
def rest_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestNode]:
    found = RestNode(tmp_path_factory.mktemp("ended-logins"))
    found.create(TOPIC)
    yield found
    found.node.stop()


OPENED: "list[Reading]" = []


@pytest.fixture(autouse=True)
def all_is_closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


class Reading:
    """An answer that a thread reads to its end."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        """Read the answer to a request that was already sent over the connection."""
        self._connection, self._socket = connection, connection.sock
        self._answer = connection.getresponse()
        self.status = self._answer.status
        self.content = b""
        self.ended_s = 0.0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        OPENED.append(self)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(TIMEOUT_S)
        self._answer.close()
        self._connection.close()

    def _read(self) -> None:
        try:
            while piece := self._answer.read1(65_536):
                self.content += piece
        except (OSError, http.client.HTTPException) as error:
            self.content += repr(error).encode()
        self.ended_s = time.monotonic()

    def is_open(self) -> bool:
        return not self.ended_s

    def ends_after(self, end: Callable[[], Any]) -> float:
        """Return the seconds from `end` to the end of the answer."""
        end()
        ended_s = time.monotonic()
        self._thread.join(TIMEOUT_S)
        assert self.ended_s, "the answer continues"
        return self.ended_s - ended_s


def connected(api: Api) -> http.client.HTTPConnection:
    host, _, port = api.url.partition("://")[2].partition(":")
    return api.connection(host, int(port))


def tail(api: Api, headers: dict[str, str], topic: str = TOPIC) -> Reading:
    cluster_id = api.ask("GET", "/v3/clusters", headers=headers).json["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster_id}/topics/{topic}/records"
    connection = connected(api)
    connection.request("GET", path, headers={**headers, "Accept": "text/event-stream"})
    found = Reading(connection)
    assert found.status == 200
    eventually(lambda: b"retry:" in found.content)
    return found


def has_error(found: Reading) -> bool:
    event = found.content.decode().rstrip("\n").rpartition("\n\n")[2]
    kind, _, data = event.partition("\ndata: ")
    return kind == "event: error" and json.loads(data)["error_code"] == 40101


def alter(rest_node: RestNode, *changes: Any) -> None:
    for one in rest_node.admin.alter_user_scram_credentials(list(changes)).values():
        one.result(TIMEOUT_S)


def set_password(rest_node: RestNode, user: str, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    alter(rest_node, UserScramCredentialUpsertion(user, info, password.encode()))


def remove(rest_node: RestNode, user: str) -> None:
    alter(rest_node, UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))


@pytest.fixture
def eve(rest_node: RestNode) -> Iterator[Api]:
    """Create a user with its own password who may read."""
    rest_node.grant("eve", AclOperation.READ, TOPIC)
    set_password(rest_node, "eve", "first")
    api = rest_node.api("eve", "first")
    eventually(lambda: api.ask("GET", "/v3/clusters").status == 200)
    yield api
    rest_node.node.broker.base.failed_logins._of.clear()


def session_of(rest_node: RestNode, user: str, password: str) -> dict[str, str]:
    reply = rest_node.api(None).ask("POST", "/console/login", {"user": user, "password": password})
    assert reply.status == 200
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    return {"Cookie": cookie, "X-CSRF-Token": reply.json["csrf_token"]}


def test_a_live_tail_ends_when_its_user_logs_out(rest_node: RestNode, eve: Api) -> None:
    api, own, other = (
        rest_node.api(None),
        session_of(rest_node, "eve", "first"),
        session_of(rest_node, "eve", "first"),
    )
    found, still = tail(api, own), tail(api, other)

    took_s = found.ends_after(lambda: api.ask("POST", "/console/logout", headers=own))

    assert took_s < BOUND_S and has_error(found) and still.is_open()


def test_a_live_tail_ends_when_its_password_changes(rest_node: RestNode, eve: Api) -> None:
    by_password = tail(eve, basic("eve", "first"))
    by_session = tail(rest_node.api(None), session_of(rest_node, "eve", "first"))
    by_certificate = tail(rest_node.api(None, certificate="eve"), {})

    took_s = by_password.ends_after(lambda: set_password(rest_node, "eve", "second"))

    assert took_s < BOUND_S and has_error(by_password)
    assert by_session.ends_after(lambda: None) < BOUND_S and has_error(by_session)
    assert by_certificate.is_open()


def test_a_live_tail_ends_when_its_user_is_removed(rest_node: RestNode, eve: Api) -> None:
    found = tail(eve, basic("eve", "first"))

    assert found.ends_after(lambda: remove(rest_node, "eve")) < BOUND_S and has_error(found)


def test_a_live_tail_keeps_its_session_in_use_and_ends_with_it(
    rest_node: RestNode, eve: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = rest_node.node.broker.rest._server
    assert server is not None
    sessions = server._authentication.sessions
    monkeypatch.setattr(sessions, "_idle_s", 2.0)
    monkeypatch.setattr(sessions, "_max_s", 7.0)
    own = session_of(rest_node, "eve", "first")
    found = tail(rest_node.api(None), own)
    began_s = time.monotonic()

    found.ends_after(lambda: None)

    assert 4.0 < found.ended_s - began_s < 7.0 + BOUND_S and has_error(found)


def test_a_live_tail_ends_when_its_user_loses_the_right_to_read(rest_node: RestNode, eve: Api) -> None:
    topic = name_of("lent")
    rest_node.create(topic)
    rest_node.grant("eve", AclOperation.READ, topic)
    found = tail(eve, basic("eve", "first"), topic)
    gone = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:eve",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )

    def take_away() -> None:
        for one in rest_node.admin.delete_acls([gone]).values():
            one.result(TIMEOUT_S)

    assert found.ends_after(take_away) < BOUND_S
    assert b"event: error" in found.content and b"403" in found.content


def test_a_stream_of_records_ends_with_its_login_and_accepts_no_more_records(
    rest_node: RestNode, eve: Api
) -> None:
    rest_node.grant("eve", AclOperation.WRITE, TOPIC)
    api, own = rest_node.api(None), session_of(rest_node, "eve", "first")
    record = json.dumps({"value": {"type": "STRING", "data": "x"}}).encode()
    connection = connected(api)
    connection.putrequest("POST", f"{rest_node.v3}/topics/{TOPIC}/records")
    for name, value in {**own, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"%x\r\n%b\r\n" % (len(record), record))
    stream = Reading(connection)
    eventually(lambda: stream.content.count(b'"error_code":200') == 1)

    took_s = stream.ends_after(lambda: api.ask("POST", "/console/logout", headers=own))

    assert took_s < BOUND_S
    assert json.loads(stream.content.strip().split(b"\r\n")[-1])["error_code"] == 40101
