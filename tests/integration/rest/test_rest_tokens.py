"""Access tokens at the REST API and the console: their principals, their expiry, and rejected tokens."""

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.oauth_provider import serve_keys
from tests.integration.rest.conftest import Api, Reply, eventually, name_of
from tests.tokens import AUDIENCE, ISSUER, claims, token

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with serve_keys(tmp_path_factory.mktemp("provider")) as (url, authorities):
        started = start_embedded(
            tmp_path_factory.mktemp("node"),
            ottla_rest_listeners="http://127.0.0.1:0",
            ottla_rest_authentication="bearer,basic",
            sasl_oauthbearer_jwks_endpoint_url=url,
            sasl_oauthbearer_expected_audience=AUDIENCE,
            sasl_oauthbearer_expected_issuer=ISSUER,
            sasl_oauthbearer_clock_skew_seconds=0,
            ottla_sasl_oauthbearer_truststore_location=authorities,
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:root",
            connection_failed_authentication_delay_ms=0,
        )
        api = Api(started.broker.rest.addresses[0].url, "any", headers=bearer())
        eventually(lambda: api.ask("GET", "/console/node").status == 200, "the keys are fetched")
        started.broker.base.failed_logins._of.clear()
        yield started
        started.stop()


def bearer(lifetime_s: int = 600, **more: Any) -> dict[str, str]:
    now_s = int(time.time())
    payload = {**claims(now_s, sub="root"), "exp": now_s + lifetime_s, **more}
    return {"Authorization": f"Bearer {token(payload, key='rsa', algorithm='RS256')}"}


def ask(node: EmbeddedBroker, headers: dict[str, str], path: str = "/v1/users") -> Reply:
    return Api(node.broker.rest.addresses[0].url, "any").ask("GET", path, headers=headers)


def test_a_token_names_its_caller_who_has_the_rights_of_that_name(node: EmbeddedBroker) -> None:
    assert ask(node, bearer()).status == 200
    refused = ask(node, bearer(sub="mallory"))

    assert refused.status == 403 and "User:mallory" in refused.json["message"]


@pytest.mark.parametrize(
    "more",
    [{"aud": "others"}, {"iss": "https://other.example"}, {"exp": 1_000_000_000}, {"sub": ""}],
    ids=["audience", "issuer", "expired", "no subject"],
)
def test_a_token_with_an_invalid_claim_is_rejected(node: EmbeddedBroker, more: dict[str, Any]) -> None:
    reply = ask(node, bearer(**more))

    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"].startswith('Bearer realm="Ottla", Basic ')


def test_a_token_with_an_unknown_key_or_without_a_signature_is_rejected(node: EmbeddedBroker) -> None:
    now_s = int(time.time())
    forged = token(claims(now_s, sub="root"), key="other", algorithm="RS256")
    parts = bearer()["Authorization"].partition(" ")[2].split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")

    for text in (forged, f"{none}.{parts[1]}.", f"{none}.{parts[1]}.x", ".".join(parts[:2]), "x" * 7_000):
        assert ask(node, {"Authorization": f"Bearer {text}"}).status == 401


def test_a_session_that_a_token_began_ends_with_it(node: EmbeddedBroker) -> None:
    api = Api(node.broker.rest.addresses[0].url, "any")
    shown = bearer(lifetime_s=3)["Authorization"].partition(" ")[2]

    begun = api.ask("POST", "/console/login", {"token": shown})
    cookie = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}
    before = ask(node, cookie).status

    assert begun.status == 200 and begun.json["principal"] == "User:root" and before == 200
    eventually(lambda: ask(node, cookie).status == 401, "the session has ended")
    assert api.ask("POST", "/console/login", {"token": shown}).status == 401


def test_a_live_tail_ends_with_its_token(node: EmbeddedBroker) -> None:
    api, shown = Api(node.broker.rest.addresses[0].url, "any"), bearer(lifetime_s=5)
    cluster_id = ask(node, shown, "/v3/clusters").json["data"][0]["cluster_id"]
    topics, topic = f"/v3/clusters/{cluster_id}/topics", name_of("watched")
    assert api.ask("POST", topics, {"topic_name": topic}, headers=shown).status == 201
    began_s = time.monotonic()

    reply = ask(
        node,
        {**shown, "Accept": "text/event-stream"},
        f"{topics}/{topic}/records",
    )

    assert reply.status == 200 and b"40101" in reply.content
    assert 3.0 < time.monotonic() - began_s < 30.0
    assert api.ask("GET", "/v1/users", headers=shown).status == 401
