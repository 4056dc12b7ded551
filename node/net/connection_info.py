"""Who is at the other end of a connection."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from ottla.node.authorization.access import Access

NO_PEER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """One client's connection, as it stays from accept to close."""

    number: int  # of those that this node accepted: a later one has a higher number
    connection_id: str  # Kafka's "LOCALHOST:LOCALPORT-REMOTEHOST:REMOTEPORT-NUMBER"
    listener_name: str
    security_protocol: str
    client_host: str
    client_port: int
    local_host: str  # the address of ours that the client reached
    local_port: int
    access: Access  # the rights of whoever is at the other end
    peer_id: int = NO_PEER  # the node of this cluster that proved to be at the other end
    # Of a connection by which the REST API of a node acts for a caller of its own.
    caller_host: str = ""  # where the caller is, empty for other connections
    caller_is_local: bool = False  # on the machine of that node
    sasl_mechanism: str = ""  # by which the client logged in; empty if it did not
    software_name: str = ""  # as the client calls itself (KIP-511); empty if it did not say
    software_version: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the client runs on this machine, or in this network namespace of it."""
        return is_local_address(self.client_host, self.local_host)

    @property
    def origin(self) -> tuple[str, bool]:
        """Return the address of who asks, and whether that is on a machine of the cluster for certain."""
        if self.caller_host:
            return self.caller_host, self.caller_is_local
        return self.client_host, self.is_local


def plain_address(address: str) -> str:
    """Return the IPv4 address of an IPv4 client of a dual-stack socket, so that it is counted as one."""
    return address.removeprefix("::ffff:") if "." in address else address


def parsed_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address without its zone, that of an IPv4 client as such; ValueError for another text."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def network_of(text: str) -> str:
    """Return an address, or for IPv6 the network of 64 bits that one host may have whole.

    Any other text, such a network too, stands for itself.
    """
    try:
        address = parsed_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def is_local_address(client_host: str, local_host: str) -> bool:
    """Return whether a client with this address, which reached that one of ours, is on this machine."""
    return client_host == local_host or client_host.startswith("127.")
