"""Certificates are issued only for valid names."""

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.secure_setup.issued_certificates import MAX_HOSTS, checked_host, of_client, of_node


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("kafka-1.Example.com.", "kafka-1.example.com"),
        ("*.ottla.svc", "*.ottla.svc"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("my_host", "my_host"),
    ],
)
def test_hosts_are_names_or_addresses(given: str, named: str) -> None:
    assert checked_host(given) == named


@pytest.mark.parametrize(
    "host", ["", "a b", "a..b", "-a", "a/b", "größe.de", "a" * 64, ".".join("a" * 200), "*"]
)
def test_an_invalid_host_is_rejected(host: str) -> None:
    with pytest.raises(KafkaError) as refused:
        checked_host(host)

    assert "neither a host name nor an IP address" in refused.value.detail


def test_a_node_is_named_by_its_id_first() -> None:
    wanted = of_node(3, ["localhost", "localhost", "127.0.0.1"])

    assert wanted.hosts == ("node-3", "localhost", "127.0.0.1") and wanted.is_server


def test_the_number_of_hosts_in_a_certificate_is_limited() -> None:
    with pytest.raises(KafkaError):
        of_node(0, [f"host-{number}" for number in range(MAX_HOSTS)])


@pytest.mark.parametrize("name", ["node-1", "NODE-20", "", "a=b", "a,b", "x" * 65, "new\nline"])
def test_a_client_cannot_pose_as_a_node_or_as_several_names(name: str) -> None:
    with pytest.raises(KafkaError):
        of_client(name)
