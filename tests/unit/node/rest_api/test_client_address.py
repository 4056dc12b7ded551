"""Whose request it is: only of proxies that are trusted it is believed for whom they ask."""

import pytest

from ottla.node.rest_api.client_address import client_of
from ottla.node.settings.rest_settings import parse_trusted_proxies

PROXIES = parse_trusted_proxies(("10.0.0.0/8", "2001:db8::1"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.1, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.1", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.1, no address"], "10.0.0.1"),
        ("10.0.0.1", [", ".join(["203.0.113.1"] * 500)], "203.0.113.1"),
        ("2001:db8::1", ["2001:db8:5::77"], "2001:db8:5::/64"),
        ("", [], ""),
    ],
)
def test_a_request_is_of(peer: str, forwarded: list[str], client: str) -> None:
    assert client_of(peer, forwarded, PROXIES) == client


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert client_of("10.0.0.1", ["198.51.100.7"], ()) == "10.0.0.1"
