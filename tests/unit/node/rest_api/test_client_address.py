"""The address of a client: only trusted proxies are believed about the addresses they forward for."""

import pytest

from ottla.node.rest_api.client_address import client_of, place_of_client
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
        # A peer that is not a trusted proxy is not believed.
        ("192.0.2.1", ["127.0.0.1"], ("192.0.2.1", False)),
    ],
)
def test_nobody_behind_a_proxy_is_taken_for_somebody_of_this_machine(
    peer: str, forwarded: list[str], place: tuple[str, bool]
) -> None:
    assert place_of_client(peer, "10.0.0.2", forwarded, LOCAL_PROXY) == place


def test_behind_a_proxy_of_this_machine_that_is_not_trusted_may_be_anybody() -> None:
    assert place_of_client("127.0.0.1", "127.0.0.1", [], ()) == ("127.0.0.1", True)
    assert place_of_client("127.0.0.1", "127.0.0.1", ["127.0.0.1"], ()) == ("127.0.0.1", False)
