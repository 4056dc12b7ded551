"""The facts of a connection: addresses, listener, the node or caller at the other end, and its access."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from ottla.node.authorization.access import Access

NO_PEER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """The facts of one client's connection, from accept to close."""

    number: int  # counts the accepted connections of this node: a later one has a higher number
    connection_id: str  # Kafka's "LOCALHOST:LOCALPORT-REMOTEHOST:REMOTEPORT-NUMBER"
    listener_name: str
    security_protocol: str
    client_host: str
    client_port: int
    local_host: str  # the local address that the client reached
    local_port: int
    access: Access  # the rights of the client at the other end
    peer_id: int = NO_PEER  # the node of this cluster that is proven to be at the other end
    # Of a connection on which the REST API of a node acts for one of its callers.
    caller_host: str = ""  # the caller's address; empty for other connections
    caller_is_local: bool = False  # whether the caller runs on the machine of that node
    sasl_mechanism: str = ""  # of the client's login; empty if it did not log in
    software_name: str = ""  # as the client names itself (KIP-511); empty if it does not
    software_version: str = ""

    @property
    def is_local(self) -> bool:
        """Return True if the client runs on this machine, in the network namespace of this process."""
        return is_local_address(self.client_host, self.local_host)

    @property
    def origin(self) -> tuple[str, bool]:
        """Return the client's or caller's address, and True if it is surely on a machine of the cluster."""
        if self.caller_host:
            return self.caller_host, self.caller_is_local
        return self.client_host, self.is_local


def plain_address(address: str) -> str:
    """Return an IPv4 address that a dual-stack socket has mapped to IPv6 as IPv4, any other one unchanged."""
    return address.removeprefix("::ffff:") if "." in address else address


def parsed_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address without its zone, and a mapped IPv4 address as IPv4; ValueError for other text."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def network_of(text: str) -> str:
    """Return an IPv4 address unchanged, and for IPv6 the /64 network, all of which one host may own.

    Any other text is returned unchanged, an IPv6 network included.
    """
    try:
        address = parsed_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def is_local_address(client_host: str, local_host: str) -> bool:
    """Return True if a client with this address, which reached this local address, is on this machine."""
    return client_host == local_host or client_host.startswith("127.")
