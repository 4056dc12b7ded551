"""Whose request it is: the address that connected, or the one that a trusted proxy says it speaks for.

The share of an address is counted by it. Nothing is believed of anybody else: an `X-Forwarded-For` of one's
own would make every request somebody new.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

from ottla.node.settings.rest_settings import Network

MAX_FORWARDED: Final = 16  # proxies one behind the other; what stands further to the left is not looked at


def network_of(text: str) -> str:
    """Return an address, or for IPv6 the network of 64 bits that one host may have whole."""
    if not text:
        return ""
    address = _plain(text)
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def client_of(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return whose request it is, as shares are counted: `network_of` its `host_of_client`."""
    return network_of(host_of_client(peer, forwarded, trusted))


def host_of_client(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the last address of the `X-Forwarded-For` headers that is no trusted proxy.

    `peer` is what connected. An entry that is no address counts as the proxy that sent it.
    """
    if not trusted or not peer or not _is_in(peer, trusted):
        return plain_text(peer)
    entries = [one.strip() for line in forwarded for one in line.rsplit(",", MAX_FORWARDED)[-MAX_FORWARDED:]]
    client = peer
    for entry in reversed(entries[-MAX_FORWARDED:]):
        try:
            _plain(entry)
        except ValueError:
            break
        client = entry
        if not _is_in(entry, trusted):
            break
    return plain_text(client)


def plain_text(text: str) -> str:
    """Return an address as it is written in entries of ACLs: without a zone, IPv4 as such."""
    return str(_plain(text)) if text else ""


def _plain(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    address = _plain(text)
    return any(address in one for one in networks)
