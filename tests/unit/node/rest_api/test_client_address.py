"""The address of a client: a forwarded address counts only if it comes from a trusted proxy."""

import pytest

from ottla.node.net.connection_info import network_of
from ottla.node.rest_api.client_address import locate_client
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
def test_only_trusted_proxies_can_forward_the_address_of_a_client(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert network_of(locate_client(peer, "", forwarded, PROXIES)[0]) == client


def test_without_trusted_proxies_no_forwarded_address_is_used() -> None:
    assert locate_client("10.0.0.1", "", ["198.51.100.7"], ())[0] == "10.0.0.1"


LOCAL_PROXY = parse_trusted_proxies(("127.0.0.1", "10.0.0.0/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "place"),
    [
        ("127.0.0.1", [], ("127.0.0.1", True)),
        ("10.0.0.2", [], ("10.0.0.2", True)),  # from this machine, by its own address
        ("127.0.0.1", ["127.0.0.1"], ("127.0.0.1", True)),
        ("127.0.0.1", ["198.51.100.7"], ("198.51.100.7", False)),
        ("127.0.0.1", ["127.0.0.1, 198.51.100.7"], ("198.51.100.7", False)),
        # Loopback as a proxy elsewhere sees it is not this machine.
        ("10.0.0.1", ["127.0.0.1"], ("127.0.0.1", False)),
        ("10.0.0.1", ["10.0.0.2"], ("10.0.0.2", False)),
        # Some proxies add a port, or write a word for an unknown address.
        ("127.0.0.1", ["198.51.100.7:41234"], ("127.0.0.1", False)),
        ("127.0.0.1", ["unknown"], ("127.0.0.1", False)),
        ("127.0.0.1", [""], ("127.0.0.1", False)),
        ("127.0.0.1", ["unknown, 10.0.0.5"], ("10.0.0.5", False)),
        # A peer that is not a trusted proxy cannot forward an address.
        ("192.0.2.1", ["127.0.0.1"], ("192.0.2.1", False)),
    ],
)
def test_a_client_behind_a_proxy_does_not_count_as_local(
    peer: str, forwarded: list[str], place: tuple[str, bool]
) -> None:
    assert locate_client(peer, "10.0.0.2", forwarded, LOCAL_PROXY) == place


def test_a_client_behind_an_untrusted_local_proxy_does_not_count_as_local() -> None:
    assert locate_client("127.0.0.1", "127.0.0.1", [], ()) == ("127.0.0.1", True)
    assert locate_client("127.0.0.1", "127.0.0.1", ["127.0.0.1"], ()) == ("127.0.0.1", False)
