"""The address of a client: the peer of the connection, or the one that a trusted proxy forwards for.

Limits and shares of slots are counted by this address. An `X-Forwarded-For` of any other peer is ignored:
with it a client could pose as a new one in every request.
"""

from collections.abc import Sequence
from typing import Final

from ottla.node.net.connection_info import is_local_address, parsed_address
from ottla.node.settings.rest_settings import Network

MAX_FORWARDED: Final = 16  # proxies in a chain; entries further to the left are ignored


def locate_client(
    peer: str, local: str, forwarded: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, bool]:
    """Return the last address of the `X-Forwarded-For` headers that is not a trusted proxy, and True if it is
    certainly on this machine.

    `peer` is the remote address of the connection, and `local` the address of ours that it reached. An entry
    that is not an address counts as the proxy that sent it. The client behind such an entry, or behind a
    proxy that is not trusted, may be anywhere; and 127.0.0.1 behind a proxy on another machine is that
    machine.
    """
    here, local = plain_address(peer), plain_address(local)
    is_local = bool(here) and is_local_address(here, local)
    if not trusted or not peer or not _is_in(peer, trusted):
        return here, is_local and not forwarded  # the proxy, here but untrusted, may forward for any client
    entries = [one.strip() for line in forwarded for one in line.rsplit(",", MAX_FORWARDED)[-MAX_FORWARDED:]]
    client = peer
    for entry in reversed(entries[-MAX_FORWARDED:]):
        try:
            parsed_address(entry)
        except ValueError:
            return plain_address(client), False
        client = entry
        if not _is_in(entry, trusted):
            break
    client = plain_address(client)
    return client, is_local and is_local_address(client, local)


def plain_address(text: str) -> str:
    """Return an address as ACL entries have it: without a zone, and IPv4 rather than mapped to IPv6."""
    return str(parsed_address(text)) if text else ""


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    address = parsed_address(text)
    return any(address in one for one in networks)
