"""The settings of the REST API: addresses and host names, valid and invalid."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.config import parse_config
from ottla.node.settings.rest_settings import RestAddress


def test_a_node_has_the_api_on_confluents_port_unless_it_is_configured() -> None:
    config = parse_config({})

    assert config.ottla_rest_listeners == (RestAddress("", 8082),) and not config.rest_listeners_are_named


def test_an_empty_list_turns_the_api_off() -> None:
    config = parse_config({"ottla.rest.listeners": ""})

    assert config.ottla_rest_listeners == () and config.rest_listeners_are_named


def test_addresses_are_read() -> None:
    config = parse_config(
        {
            "ottla.rest.listeners": "http://127.0.0.1:0, http://[::1]:8083/",
            "ottla.rest.advertised.listener": "http://[2001:db8::1]:80",
            "ottla.rest.allowed.hosts": "Broker.Example.com, *.svc",
        }
    )

    assert config.ottla_rest_listeners == (RestAddress("127.0.0.1", 0), RestAddress("::1", 8083))
    assert config.ottla_rest_advertised_listener == RestAddress("2001:db8::1", 80)
    assert RestAddress("::1", 8083).authority == "[::1]:8083"
    assert config.ottla_rest_allowed_hosts == ("broker.example.com", "*.svc")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        (":8083", RestAddress("", 8083)),
        ("127.0.0.1:0", RestAddress("127.0.0.1", 0)),
        ("http://[::1]:8083", RestAddress("::1", 8083)),
    ],
)
def test_probes_have_an_address_of_their_own_if_they_are_given_one(
    text: str, address: RestAddress | None
) -> None:
    assert parse_config({"ottla.probe.listener": text}).ottla_probe_listener == address
    assert parse_config({}).ottla_probe_listener is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ottla.rest.trusted.proxies", "proxy.example.com"),
        ("ottla.rest.trusted.proxies", "10.0.0.0/40"),
        ("ottla.rest.reads.max", "0"),
        ("ottla.probe.listener", "8083"),
        ("ottla.probe.listener", "https://:8083"),
        ("ottla.probe.listener", ":70000"),
        ("ottla.rest.listeners", "ftp://:8082"),
        ("ottla.rest.listeners", "8082"),
        ("ottla.rest.listeners", "http://:70000"),
        ("ottla.rest.listeners", ",".join(f"http://:{8082 + index}" for index in range(9))),
        ("ottla.rest.listeners", "http://user@host:1"),
        ("ottla.rest.advertised.listener", "http://0.0.0.0:8082"),
        ("ottla.rest.advertised.listener", "http://host:0"),
        ("ottla.rest.advertised.listener", "host"),
        ("ottla.rest.allowed.hosts", "a:80"),
        ("ottla.rest.allowed.hosts", "*"),
        ("ottla.rest.allowed.hosts", "a b"),
        ("ottla.rest.request.max.bytes", "12"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_setting(name: str, text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_config({name: text})

    assert refused.value.code is ErrorCode.INVALID_CONFIG and name in refused.value.detail
