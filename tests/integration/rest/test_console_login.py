"""Logins to the console: the cookie, the token against forged requests, fixation, and the end of sessions."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.integration.embedded_broker import EmbeddedBroker
from tests.integration.rest.conftest import Api, Reply, eventually
from tests.integration.rest.test_rest_logins import TIMEOUT_S, USERS, RestNode, basic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rest_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestNode]:
    found = RestNode(tmp_path_factory.mktemp("console-login"))
    yield found
    found.node.stop()


@pytest.fixture(autouse=True)
def no_failed_logins(rest_node: RestNode) -> None:
    """Forget the failed logins of other tests, which come from the same address."""
    rest_node.forget_failed_logins()


class Login(NamedTuple):
    """The cookie and the token of a browser after a login."""

    cookie: str
    attributes: str
    token: str

    def headers(self, *, with_token: bool = True) -> dict[str, str]:
        return {"Cookie": self.cookie} | ({"X-CSRF-Token": self.token} if with_token else {})


def log_in(api: Api, user: str = "admin", *, cookie: str = "") -> Login:
    reply = api.ask(
        "POST",
        "/console/login",
        {"user": user, "password": USERS[user]},
        headers={"Cookie": cookie} if cookie else {},
    )
    assert reply.status == 200, reply.content
    first, _, attributes = reply.headers["Set-Cookie"].partition("; ")
    return Login(first, attributes, reply.json["csrf_token"])


def test_a_session_is_in_a_cookie_that_only_this_site_sends_back(rest_node: RestNode) -> None:
    login = log_in(rest_node.api(None))
    name, _, value = login.cookie.partition("=")

    assert name == f"__Host-ottla-session-{rest_node.node.broker.config.node_id}" and len(value) == 43
    assert set(login.attributes.split("; ")) == {"Path=/", "HttpOnly", "SameSite=Strict", "Secure"}
    assert value != login.token


def test_the_cookie_alone_allows_reading_and_changes_need_the_token(rest_node: RestNode) -> None:
    api, login = rest_node.api(None), log_in(rest_node.api(None))
    path, body = "/v1/users/mia", {"password": "x"}

    def put(headers: dict[str, str]) -> int:
        return api.ask("PUT", path, body, headers=headers).status

    assert api.ask("GET", "/v3/clusters", headers=login.headers()).status == 200
    assert put(login.headers(with_token=False)) == 403
    assert put({**login.headers(), "X-CSRF-Token": log_in(api).token}) == 403
    assert put({**login.headers(), "X-CSRF-Token": ""}) == 403
    assert put({"X-CSRF-Token": login.token}) == 401
    assert put(login.headers()) == 204
    assert api.ask("DELETE", path, headers=login.headers(with_token=False)).status == 403
    assert api.ask("DELETE", path, headers=login.headers()).status == 204


def test_a_page_of_another_site_cannot_use_the_session(rest_node: RestNode) -> None:
    api, login = rest_node.api(None), log_in(rest_node.api(None))
    foreign = {**login.headers(), "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}

    assert api.ask("PUT", "/v1/users/mia", {"password": "x"}, headers=foreign).status == 403
    assert api.ask("POST", "/console/login", {"user": "ann", "password": "x"}, headers=foreign).status == 403


def test_a_made_up_id_is_never_a_session(rest_node: RestNode) -> None:
    """Session fixation: a login neither accepts nor keeps an id that the browser sends."""
    api = rest_node.api(None)
    name = f"__Host-ottla-session-{rest_node.node.broker.config.node_id}"
    chosen = f"{name}={'A' * 43}"

    login = log_in(api, cookie=chosen)

    assert login.cookie != chosen
    assert api.ask("GET", "/v3/clusters", headers={"Cookie": chosen}).status == 401


def test_a_new_login_ends_the_session_before_it(rest_node: RestNode) -> None:
    api, first = rest_node.api(None), log_in(rest_node.api(None))
    second = log_in(api, "ann", cookie=first.cookie)

    assert api.ask("GET", "/console/node", headers=first.headers()).status == 401
    session = api.ask("GET", "/console/session", headers=second.headers()).json
    assert session == {
        "methods": ["basic", "certificate"],
        "principal": "User:ann",
        "csrf_token": second.token,
    }


def test_a_logout_ends_the_session(rest_node: RestNode) -> None:
    api, login = rest_node.api(None), log_in(rest_node.api(None))

    assert api.ask("POST", "/console/logout", headers=login.headers(with_token=False)).status == 403
    out = api.ask("POST", "/console/logout", headers=login.headers())

    assert out.status == 204 and "Max-Age=0" in out.headers["Set-Cookie"]
    assert api.ask("GET", "/v3/clusters", headers=login.headers()).status == 401
    assert api.ask("GET", "/console/session", headers=login.headers()).json["principal"] is None


def test_a_session_has_the_rights_of_its_user(rest_node: RestNode) -> None:
    api, login = rest_node.api(None), log_in(rest_node.api(None), "ann")

    assert api.ask("GET", "/v1/users", headers=login.headers()).status == 403
    assert api.ask("GET", f"{rest_node.v3}/topics", headers=login.headers()).json["data"] == []


def test_a_session_ends_with_the_password_that_it_began_with(rest_node: RestNode) -> None:
    def alter(password: bytes) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("bob", info, password)
        for one in rest_node.admin.alter_user_scram_credentials([change]).values():
            one.result(TIMEOUT_S)

    api, login = rest_node.api(None), log_in(rest_node.api(None), "bob")
    before = api.ask("GET", "/console/node", headers=login.headers()).status
    alter(b"another")

    assert before == 200
    eventually(lambda: api.ask("GET", "/console/node", headers=login.headers()).status == 401)
    alter(USERS["bob"].encode())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"user": "ann"},
        {"user": "ann", "password": ""},
        {"user": 1, "password": "x"},
        {"token": "a.b.c"},
        {"user": "a" * 5_000, "password": "x"},
        [1],
    ],
)
def test_a_malformed_login_is_rejected(rest_node: RestNode, body: Any) -> None:
    assert rest_node.api(None).ask("POST", "/console/login", body).status in (400, 422)


def test_a_login_is_json_and_never_in_an_address(rest_node: RestNode) -> None:
    api = rest_node.api(None)
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    assert (
        api.ask("POST", "/console/login", content=b"user=ann&password=ann-secret", headers=form).status == 415
    )
    assert api.ask("GET", "/console/login?user=ann&password=ann-secret").status == 405
    assert api.ask("GET", "/v3/clusters?user=admin&password=admin-secret").status == 401


def test_wrong_passwords_lock_the_user_for_that_address(rest_node: RestNode) -> None:
    api = rest_node.api(None)

    def wrong() -> Reply:
        return api.ask("POST", "/console/login", {"user": "ann", "password": "wrong"})

    replies = [wrong() for _ in range(8)]
    right = api.ask("POST", "/console/login", {"user": "ann", "password": USERS["ann"]})

    assert [one.status for one in replies[:5]] == [401] * 5 and replies[-1].status == 429
    assert replies[0].headers["WWW-Authenticate"].startswith("Session ")
    assert right.status == 429 and int(right.headers["Retry-After"]) > 0
    assert "Set-Cookie" not in right.headers
    assert log_in(api, "bob").token


def test_thousands_of_made_up_session_ids_are_rejected_and_are_no_failed_logins(rest_node: RestNode) -> None:
    name = f"__Host-ottla-session-{rest_node.node.broker.config.node_id}"
    found: list[int] = []

    def guess_session_ids(first: int) -> None:
        connection = rest_node.api(None).connection("127.0.0.1", rest_node.node.broker.rest.addresses[0].port)
        for number in range(first, first + 250):
            connection.request("GET", "/console/node", headers={"Cookie": f"{name}={number:043}"})
            answer = connection.getresponse()
            answer.read()
            found.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=guess_session_ids, args=(1_000 * one,)) for one in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert set(found) == {401} and len(found) == 2_000
    assert len(rest_node.node.broker.base.failed_logins) == 0


def test_headers_of_a_login_win_over_a_session(rest_node: RestNode) -> None:
    api, login = rest_node.api(None), log_in(rest_node.api(None))

    as_ann = api.ask("GET", "/v1/users", headers={**login.headers(), **basic("ann", USERS["ann"])})
    with_wrong_password = api.ask("GET", "/v1/users", headers={**login.headers(), **basic("ann", "wrong")})

    assert as_ann.status == 403 and with_wrong_password.status == 401


def test_without_logins_all_callers_are_anonymous_and_a_login_is_rejected(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    node = embedded(ottla_rest_listeners="http://127.0.0.1:0")
    api = Api(node.broker.rest.addresses[0].url, "any")

    session = api.get("/console/session")

    assert session == {"methods": [], "principal": "User:ANONYMOUS", "csrf_token": None}
    assert api.ask("POST", "/console/login", {"user": "ann", "password": "x"}).status == 400
    assert api.ask("POST", "/console/logout").status == 204


def test_an_unused_session_ends_and_its_cookie_has_no_prefix_without_tls(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    node = embedded(
        ottla_rest_listeners="http://127.0.0.1:0",
        ottla_rest_authentication="basic",
        ottla_rest_session_idle_ms=1_000,
        ottla_add_scram="SCRAM-SHA-256=[name=admin,password=admin-secret]",
    )
    api = Api(node.broker.rest.addresses[0].url, "any")

    login = log_in(api)
    used = api.ask("GET", "/console/node", headers=login.headers()).status

    assert login.cookie.startswith("ottla-session-") and "Secure" not in login.attributes
    assert used == 200
    time.sleep(1.2)
    assert api.ask("GET", "/console/node", headers=login.headers()).status == 401
