"""Whose request it is: the address that connected, or the one that a trusted proxy says it speaks for.

The share of an address is counted by it. Nothing is believed of anybody else: an `X-Forwarded-For` of one's
own would make every request somebody new.
"""

from collections.abc import Sequence
from typing import Final

from ottla.node.net.connection_info import is_local_address, network_of, parsed_address
from ottla.node.settings.rest_settings import Network

MAX_FORWARDED: Final = 16  # proxies one behind the other; what stands further to the left is not looked at


def client_of(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return whose request it is, as shares are counted: `network_of` its `host_of_client`."""
    return network_of(host_of_client(peer, forwarded, trusted))


def host_of_client(peer: str, forwarded: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the address of the client: see `place_of_client`."""
    return place_of_client(peer, "", forwarded, trusted)[0]


def place_of_client(
    peer: str, local: str, forwarded: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, bool]:
    """Return the last address of the `X-Forwarded-For` headers that is no trusted proxy, and whether that is
    on this machine for certain.

    `peer` is what connected, and `local` the address of ours that it reached. An entry that is no address
    counts as the proxy that sent it; but who stands behind such an entry, or behind a proxy that is not
    trusted, may be anywhere, and 127.0.0.1 behind a proxy elsewhere is that proxy's machine.
    """
    here, local = plain_text(peer), plain_text(local)
    is_local = bool(here) and is_local_address(here, local)
    if not trusted or not peer or not _is_in(peer, trusted):
        return here, is_local and not forwarded  # a proxy here, and nobody knows who is behind it
    entries = [one.strip() for line in forwarded for one in line.rsplit(",", MAX_FORWARDED)[-MAX_FORWARDED:]]
    client = peer
    for entry in reversed(entries[-MAX_FORWARDED:]):
        try:
            parsed_address(entry)
        except ValueError:
            return plain_text(client), False
        client = entry
        if not _is_in(entry, trusted):
            break
    client = plain_text(client)
    return client, is_local and is_local_address(client, local)


def plain_text(text: str) -> str:
    """Return an address as it is written in entries of ACLs: without a zone, IPv4 as such."""
    return str(parsed_address(text)) if text else ""


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    address = parsed_address(text)
    return any(address in one for one in networks)
