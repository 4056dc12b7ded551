"""The warnings of a node about listeners that other machines reach without TLS, or without a login."""

import pytest

from ottla.node.settings.config import parse_config
from ottla.node.settings.exposed_listeners import open_way_warnings
from ottla.node.settings.listener_settings import is_loopback


@pytest.mark.parametrize(
    ("host", "is_beyond"),
    [
        ("", True),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.1", True),
        ("broker-1", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("::1", False),
        ("localhost", False),
        ("LOCALHOST", False),
        ("fe80::1%eth0", True),
    ],
)
def test_only_loopback_addresses_and_localhost_count_as_loopback(host: str, is_beyond: bool) -> None:
    assert is_loopback(host) is not is_beyond


def warnings(**settings: str) -> list[str]:
    return list(
        open_way_warnings(parse_config({name.replace("_", "."): one for name, one in settings.items()}))
    )


def test_one_sentence_names_the_listeners_without_tls_and_the_remedy() -> None:
    lines = warnings(
        listeners="PLAINTEXT://:9092,LOGINS://[fd00::1]:9093,OWN://127.0.0.1:9094,TLS://:9095",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT,OWN:PLAINTEXT,TLS:SSL",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        ssl_keystore_location="node.pem",
        ottla_rest_listeners="",
    )

    assert lines == [
        "Other machines reach the listeners PLAINTEXT (all addresses, port 9092), LOGINS ([fd00::1]:9093) "
        "without TLS, so anyone on the network path can read and change the data: use SSL or SASL_SSL for "
        "them (listener.security.protocol.map), or bind them to 127.0.0.1."
    ]


def test_controller_listeners_and_the_rest_api_are_checked_too() -> None:
    listeners, rest = warnings(
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://10.0.0.1:9093",
        controller_listener_names="CONTROLLER",
        cluster_secret="sixteen characters",
        ottla_rest_listeners="http://0.0.0.0:8082",
    )

    assert "the listener CONTROLLER (10.0.0.1:9093) without TLS" in listeners
    assert "the REST API (0.0.0.0:8082) without TLS" in rest and "ottla.rest.listeners" in rest


def test_a_node_on_loopback_logs_no_warning() -> None:
    assert (
        warnings(listeners="PLAINTEXT://localhost:9092", ottla_rest_listeners="http://127.0.0.1:8082") == []
    )


OPEN_TO_ALL = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:admin;User:ANONYMOUS",
    "listener_security_protocol_map": "A:PLAINTEXT,B:SSL,C:SSL,D:SASL_SSL,E:PLAINTEXT,F:SSL",
    "listeners": "A://10.0.0.1:1,B://:2,C://:3,D://:4,E://127.0.0.1:5,F://:6",
    "inter_broker_listener_name": "A",
    "sasl_enabled_mechanisms": "SCRAM-SHA-512",
    "ssl_keystore_location": "node.pem",
    "ssl_truststore_location": "ca.pem",
    "listener_name_c_ssl_client_auth": "required",
    "listener_name_f_ssl_client_auth": "requested",
    "ottla_rest_listeners": "https://:8082,http://127.0.0.1:8083",
}


def test_a_warning_names_the_listeners_that_make_anonymous_clients_super_users() -> None:
    lines = [one for one in warnings(**OPEN_TO_ALL) if "super.users" in one]

    assert lines == [
        "super.users names User:ANONYMOUS, which is every client without a login, so every client that "
        "reaches A, B, F, https://:8082 from another machine may do everything: remove it from super.users, "
        "or require logins there (SASL, ssl.client.auth=required, ottla.rest.authentication)."
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"super_users": "User:admin"},
        {
            "listeners": "E://127.0.0.1:5,D://:4",
            "inter_broker_listener_name": "E",
            "ottla_rest_listeners": "",
        },
        {
            "listeners": "C://:3,D://:4",
            "inter_broker_listener_name": "C",
            "ottla_rest_authentication": "basic",
        },
    ],
    ids=["anonymous clients are not super users", "loopback", "logins"],
)
def test_there_is_no_warning_if_anonymous_clients_cannot_become_super_users(changed: dict[str, str]) -> None:
    names = changed.get("listeners", OPEN_TO_ALL["listeners"])
    settings = {
        name: value
        for name, value in (OPEN_TO_ALL | changed).items()
        if not name.startswith("listener_name_") or f"{name[14].upper()}://" in names
    }

    assert not [one for one in warnings(**settings) if "super.users" in one]
