"""Clients log in with access tokens; the node fetches the keys from a provider on this machine."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.broker import Broker
from ottla.node.secure_client import token_endpoint
from ottla.node.secure_client.client_security import (
    ClientCredentials,
    ClientSecurityError,
    read_client_security,
)
from ottla.node.secure_client.token_endpoint import forget, token_for
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.metadata import Cluster
from tests.compat.wire_client import WireClient, eventually
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.oauth_provider import REQUESTS, SECRET, serve_keys
from tests.ports import free_port
from tests.tokens import AUDIENCE, ISSUER, claims, token

pytestmark = pytest.mark.slow

WAIT_S = 30
MAX_REAUTH_MS = 50_000


class OauthNode(NamedTuple):
    """A node whose clients log in with tokens, and the address of that listener."""

    node: EmbeddedBroker
    bootstrap: str

    def principals(self) -> set[str]:
        """Return the principals that are connected to the listener with tokens."""

        def read(broker: Broker) -> set[str]:
            return {one.info.access.principal for one in broker.listeners[1].connections}

        return self.node.call(read)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the URL of the keys, and the file with the CA of their host."""
    with serve_keys(tmp_path_factory.mktemp("provider")) as served:
        yield served


@pytest.fixture(scope="module")
def oauth(tmp_path_factory: pytest.TempPathFactory, provider: tuple[str, Path]) -> Iterator[OauthNode]:
    url, authorities = provider
    node = start_embedded(
        tmp_path_factory.mktemp("node"),
        listeners="PLAINTEXT://127.0.0.1:0,TOKENS://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
        listener_name_tokens_oauthbearer_connections_max_reauth_ms=MAX_REAUTH_MS,
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=url,
        sasl_oauthbearer_expected_audience=AUDIENCE,
        sasl_oauthbearer_expected_issuer=ISSUER,
        ottla_sasl_oauthbearer_truststore_location=authorities,
        ottla_sasl_plain_without_tls="true",
    )
    port = node.call(lambda broker: broker.listeners[1].port)
    yield OauthNode(node, f"127.0.0.1:{port}")
    node.stop()


def message(text: str) -> bytes:
    return b"n,,\x01auth=Bearer %b\x01\x01" % text.encode()


@pytest.mark.parametrize(("key", "algorithm"), [("rsa", "PS256"), ("ES256", "ES256")])
def test_librdkafka_logs_in_with_a_token(oauth: OauthNode, key: str, algorithm: str) -> None:
    now_s = int(time.time())
    name = f"user-{key}"

    def shown(_: str) -> tuple[str, float]:
        return token(claims(now_s, sub=name), key=key, algorithm=algorithm), now_s + 600.0

    settings = {
        "bootstrap.servers": oauth.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": shown,
    }
    producer = Producer(settings)
    producer.produce("t", b"x")

    assert producer.flush(WAIT_S) == 0
    assert f"User:{name}" in oauth.principals()


def test_the_client_of_the_pipeline_reads_its_token_again_at_each_login(
    oauth: OauthNode, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    settings = ClientSettings.from_options(
        {
            "kafka.bootstrap.servers": oauth.bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
            ),
            "kafka.sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        },
        Role.SOURCE,
    )
    clients = [Cluster(settings) for _ in range(2)]
    for client, name in zip(clients, ("first-spark", "second-spark"), strict=True):
        file.write_text(token(claims(int(time.time()), sub=name)))
        client.retry(client.refresh_nodes)
    names = oauth.principals()
    file.write_text(token(claims(int(time.time()), sub="late", exp=int(time.time()) - 100)))

    late = Cluster(settings)
    with pytest.raises(KafkaError, match="refused the login with OAUTHBEARER") as refused:
        late.retry(late.refresh_nodes)

    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert {"User:first-spark", "User:second-spark"} <= names
    for client in clients:
        client.close()


def test_an_expired_token_is_rejected(oauth: OauthNode) -> None:
    now_s = int(time.time())

    def shown(_: str) -> tuple[str, float]:
        return token(claims(now_s, sub="late", exp=now_s - 100, iat=now_s - 900)), now_s + 600.0

    admin = AdminClient(
        {
            "bootstrap.servers": oauth.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": shown,
            "log_level": 0,
        }
    )
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)

    assert "User:late" not in oauth.principals()


@pytest.mark.parametrize("seconds", [30, 600])
def test_a_session_lasts_as_long_as_its_token_and_as_its_listener_allows(
    oauth: OauthNode, seconds: int
) -> None:
    now_s = int(time.time())
    with WireClient(oauth.bootstrap) as client:
        client.call("sasl_handshake", 1, mechanism="OAUTHBEARER")
        text = token(claims(now_s, exp=now_s + seconds))
        answer = client.call("sasl_authenticate", 1, auth_bytes=message(text))
        found = client.call("metadata", 12, topics=[])

    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    if seconds == 30:
        assert 0 < answer.session_lifetime_ms <= 30_000
    else:
        assert answer.session_lifetime_ms == MAX_REAUTH_MS
    assert found.brokers


def test_a_bad_token_is_rejected_in_two_steps(oauth: OauthNode) -> None:
    with WireClient(oauth.bootstrap) as client:
        client.call("sasl_handshake", 1, mechanism="OAUTHBEARER")
        first = client.call("sasl_authenticate", 1, auth_bytes=message("a.b.c"))
        second = client.call("sasl_authenticate", 1, auth_bytes=b"\x01")

    assert (first.error_code, first.auth_bytes) == (0, b'{"status":"invalid_token"}')
    assert (second.error_code, second.error_message) == (58, '{"status":"invalid_token"}')


def test_the_command_starts_a_node_that_accepts_tokens(tmp_path: Path, provider: tuple[str, Path]) -> None:
    url, authorities = provider
    tokens = f"127.0.0.1:{free_port()}"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},TOKENS://{tokens}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "ottla.sasl.oauthbearer.truststore.location": str(authorities),
        "ottla.sasl.plain.without.tls": "true",
        "ottla.rest.listeners": "",
    }
    command = [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path / "data")]
    for name, value in settings.items():
        command += ["--override", f"{name}={value}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline().startswith("READY ")
            with WireClient(tokens) as client:
                client.call("sasl_handshake", 1, mechanism="OAUTHBEARER")
                text = token(claims(int(time.time())))
                answer = client.call("sasl_authenticate", 1, auth_bytes=message(text))
                assert (answer.error_code, answer.auth_bytes) == (0, b"")
        finally:
            node.terminate()


# ---- mechanisms that change while a node runs ------------------------------------------------------------


class Changing:
    """A node with a listener that starts with SCRAM alone, and another one that accepts tokens."""

    def __init__(self, home: Path, provider: tuple[str, Path]) -> None:
        url, authorities = provider
        self.node = start_embedded(
            home,
            listeners="PLAINTEXT://127.0.0.1:0,LOGINS://127.0.0.1:0,OTHERS://127.0.0.1:0",
            listener_security_protocol_map=(
                "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT,OTHERS:SASL_PLAINTEXT"
            ),
            sasl_enabled_mechanisms="SCRAM-SHA-512",
            listener_name_others_sasl_enabled_mechanisms="OAUTHBEARER",
            sasl_oauthbearer_jwks_endpoint_url=url,
            sasl_oauthbearer_expected_audience=AUDIENCE,
            sasl_oauthbearer_expected_issuer=ISSUER,
            ottla_sasl_oauthbearer_truststore_location=authorities,
            ottla_sasl_plain_without_tls="true",
            connection_failed_authentication_delay_ms=0,
        )
        self.logins, self.others = (self.node.call(lambda b, n=n: b.listeners[n].port) for n in (1, 2))

    def change(self, **settings: str | None) -> tuple[int, str]:
        """Change settings of the broker, and return the error code and the message."""
        configs = [
            {
                "name": name.replace("__", "-").replace("_", "."),
                "config_operation": value is None,
                "value": value,
            }
            for name, value in settings.items()
        ]
        broker = {"resource_type": 4, "resource_name": "0", "configs": configs}
        with WireClient(self.node.bootstrap) as client:
            answer = client.call("incremental_alter_configs", 1, resources=[broker], validate_only=False)
        return answer.responses[0].error_code, str(answer.responses[0].error_message)

    def offered(self, port: int) -> list[str]:
        """Return the mechanisms that a listener offers to a client that asks for an unknown one."""
        with WireClient(f"127.0.0.1:{port}") as client:
            return list(client.call("sasl_handshake", 1, mechanism="NONE").mechanisms)

    def log_in(self, mechanism: str, first_message: bytes) -> int:
        """Log in with one message; return the error code, or 58 (failed) if the node sends a challenge."""
        with WireClient(f"127.0.0.1:{self.logins}") as client:
            handshake = client.call("sasl_handshake", 1, mechanism=mechanism)
            if handshake.error_code:
                return int(handshake.error_code)
            answer = client.call("sasl_authenticate", 2, auth_bytes=first_message)
            return 58 if answer.auth_bytes else int(answer.error_code)


@pytest.fixture
def changing(tmp_path: Path, provider: tuple[str, Path]) -> Iterator[Changing]:
    made = Changing(tmp_path, provider)
    yield made
    made.node.stop()


def test_tokens_are_accepted_while_the_setting_has_the_mechanism(changing: Changing) -> None:
    mine = "listener_name_logins_sasl_enabled_mechanisms"
    first_message = message(token(claims(int(time.time()))))
    assert changing.offered(changing.logins) == ["SCRAM-SHA-512"]
    assert changing.log_in("OAUTHBEARER", first_message) == ErrorCode.UNSUPPORTED_SASL_MECHANISM

    assert changing.change(**{mine: "SCRAM-SHA-512,OAUTHBEARER"})[0] == 0
    taken = eventually(lambda: changing.log_in("OAUTHBEARER", first_message), lambda code: code == 0)
    assert taken == 0, "the keys of the provider were fetched"
    assert changing.offered(changing.logins) == ["SCRAM-SHA-512", "OAUTHBEARER"]
    assert changing.offered(changing.others) == ["OAUTHBEARER"], "the setting is of one listener only"

    assert changing.change(**{mine: None})[0] == 0
    eventually(lambda: changing.offered(changing.logins), lambda names: "OAUTHBEARER" not in names)
    assert changing.log_in("OAUTHBEARER", first_message) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert changing.change(**{mine: "OAUTHBEARER"})[0] == 0
    assert eventually(lambda: changing.log_in("OAUTHBEARER", first_message), lambda code: code == 0) == 0
    assert changing.offered(changing.logins) == ["OAUTHBEARER"]


def test_an_added_mechanism_is_offered_after_a_restart(tmp_path: Path, provider: tuple[str, Path]) -> None:
    first_message = message(token(claims(int(time.time()))))
    first = Changing(tmp_path, provider)
    try:
        code, problem = first.change(listener_name_logins_sasl_enabled_mechanisms="OAUTHBEARER")
        assert code == 0, problem
    finally:
        first.node.stop()

    second = Changing(tmp_path, provider)
    try:
        assert eventually(lambda: second.log_in("OAUTHBEARER", first_message), lambda code: code == 0) == 0
        assert second.offered(second.logins) == ["OAUTHBEARER"]
    finally:
        second.node.stop()


def test_users_of_plain_change_with_their_setting(changing: Changing) -> None:
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="right";'
    mine, jaas = "listener_name_logins_sasl_enabled_mechanisms", "listener_name_logins_plain_sasl_jaas_config"

    assert changing.change(**{mine: "PLAIN,SCRAM-SHA-256", jaas: users})[0] == 0
    offered = eventually(lambda: changing.offered(changing.logins), lambda names: "PLAIN" in names)
    assert offered == ["PLAIN", "SCRAM-SHA-256"]
    assert changing.log_in("PLAIN", b"\0ann\0right") == 0
    assert changing.change(**{jaas: users.replace("right", "newer")})[0] == 0
    eventually(lambda: changing.log_in("PLAIN", b"\0ann\0newer"), lambda code: code == 0)
    assert changing.log_in("PLAIN", b"\0ann\0right") == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("mechanisms", ["NONSENSE", "GSSAPI", "SCRAM-SHA-512,GSSAPI", ""])
def test_mechanisms_that_no_listener_can_offer_are_rejected_and_change_nothing(
    changing: Changing, mechanisms: str
) -> None:
    code, message = changing.change(listener_name_logins_sasl_enabled_mechanisms=mechanisms)

    assert code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST) and "LOGINS" in message
    assert changing.offered(changing.logins) == ["SCRAM-SHA-512"]


def test_oauthbearer_without_the_settings_that_it_needs_is_rejected(tmp_path: Path) -> None:
    node = start_embedded(
        tmp_path,
        listeners="PLAINTEXT://127.0.0.1:0,LOGINS://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        ottla_sasl_plain_without_tls="true",
    )
    changing = Changing.__new__(Changing)
    changing.node = node
    try:
        code, message = changing.change(listener_name_logins_sasl_enabled_mechanisms="OAUTHBEARER")
    finally:
        node.stop()

    assert code != 0 and "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url" in message


def test_tokens_are_accepted_once_the_ca_file_of_the_provider_can_be_read(
    tmp_path: Path, provider: tuple[str, Path]
) -> None:
    """The listener must not offer a mechanism that it cannot serve."""
    url, authorities = provider
    place, mine = tmp_path / "authorities.pem", "listener_name_logins_sasl_enabled_mechanisms"
    place.write_bytes(authorities.read_bytes())
    changing = Changing(tmp_path / "node", (url, place))
    place.write_text("no certificate")
    try:
        code, problem = changing.change(**{mine: "SCRAM-SHA-512,OAUTHBEARER"})
        assert code == ErrorCode.INVALID_REQUEST
        assert f"The listener LOGINS cannot offer OAUTHBEARER: The authorities in {place}" in problem
        assert changing.offered(changing.logins) == ["SCRAM-SHA-512"]

        place.write_bytes(authorities.read_bytes())
        assert changing.change(**{mine: "SCRAM-SHA-512,OAUTHBEARER"})[0] == 0
        first_message = message(token(claims(int(time.time()))))
        assert eventually(lambda: changing.log_in("OAUTHBEARER", first_message), lambda code: code == 0) == 0
    finally:
        changing.node.stop()


# ---- tokens that a client fetches ------------------------------------------------------------------------


def fetching(provider: tuple[str, Path], client_id: str, secret: str = SECRET, **more: str) -> dict[str, str]:
    """Return the settings of a client that fetches its tokens from the provider."""
    url, authorities = provider
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url.replace("/keys", "/token"),
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{client_id}" clientSecret="{secret}" scope="read write" '
        f'ssl.truststore.type="PEM" ssl.truststore.location="{authorities}";',
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def credentials_of(given: dict[str, str]) -> ClientCredentials:
    login = read_client_security(given)[0].login
    assert login is not None and login.credentials is not None
    return login.credentials


def test_a_client_fetches_its_token_and_logs_in_with_it(oauth: OauthNode, provider: tuple[str, Path]) -> None:
    settings = {**fetching(provider, "robot"), "bootstrap.servers": oauth.bootstrap}
    options = {f"kafka.{name}": value for name, value in settings.items()}
    clusters = [Cluster(ClientSettings.from_options(options, Role.SOURCE)) for _ in range(2)]
    for one in clusters:
        one.retry(one.refresh_nodes)

    assert "User:robot" in oauth.principals()
    assert REQUESTS["robot"] == ["grant_type=client_credentials&scope=read+write"], (
        "the token is cached for the second login"
    )
    assert SECRET not in repr(credentials_of(settings))
    for one in clusters:
        one.close()


@pytest.mark.parametrize(
    ("client_id", "secret", "words", "code"),
    [
        ("robot", "wrong", r"HTTP 401 \(invalid_client\)", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("moved", SECRET, "HTTP 307", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("busy", SECRET, r"HTTP 503 \(temporarily_unavailable\)", ErrorCode.NETWORK_EXCEPTION),
        ("drip", SECRET, "no token could be fetched from localhost", ErrorCode.NETWORK_EXCEPTION),
        ("huge", SECRET, "answer has no token", None),
        ("text", SECRET, "answer has no token", None),
        ("spaced", SECRET, "answer has no token", None),
    ],
    ids=lambda given: str(given)[:20],
)
def test_a_failed_token_request_is_reported_without_the_secret(
    provider: tuple[str, Path],
    client_id: str,
    secret: str,
    words: str,
    code: ErrorCode | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A long limit, so that only the answer ends the wait; a short one for the answer that never completes.
    monkeypatch.setattr(token_endpoint, "FETCH_SECONDS", 1.0 if client_id == "drip" else 60.0)
    began = time.monotonic()
    with pytest.raises(KafkaError if code else ClientSecurityError, match=words) as refused:
        token_for(credentials_of(fetching(provider, client_id, secret)))

    assert time.monotonic() - began < 30
    assert code is None or (isinstance(refused.value, KafkaError) and refused.value.code is code)
    assert secret not in str(refused.value)


def test_a_token_is_cached_for_its_lifetime_or_until_it_is_rejected(
    provider: tuple[str, Path],
) -> None:
    no_expiry, forgotten = (credentials_of(fetching(provider, name)) for name in ("no expiry", "forgotten"))
    REQUESTS.clear()
    forget(forgotten)  # the token of an earlier run of this test
    for _ in range(2):
        token_for(no_expiry)
        token_for(forgotten)
    forget(forgotten)
    token_for(forgotten)

    assert (len(REQUESTS["no expiry"]), len(REQUESTS["forgotten"])) == (2, 2)


def test_the_secret_is_not_sent_to_an_untrusted_provider(provider: tuple[str, Path]) -> None:
    credentials = replace(credentials_of(fetching(provider, "unknown")), tls=None)

    with pytest.raises(KafkaError, match="no token could be fetched") as refused:
        token_for(credentials)

    assert refused.value.code is ErrorCode.NETWORK_EXCEPTION and "unknown" not in REQUESTS
