"""The result of an attempt to connect to an address."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple


class Speaks(Enum):
    """The protocol that answered at an address, or the reason why none did."""

    KAFKA = "Kafka"
    TLS = "TLS"
    HTTP = "HTTP"
    CONTROLLER = "the protocol of the metadata quorum"
    OTHER = "another protocol"
    SILENT = "nothing"  # the connection was accepted, but then closed or never answered
    REFUSED = "refused"
    DENIED = "denied"  # by either end: no trusted certificate, or a failed login
    UNREACHABLE = "unreachable"
    UNRESOLVED = "unresolved"


class EndpointFacts(NamedTuple):
    """An address, the addresses that its name resolves to, and the response from there."""

    host: str
    port: int
    addresses: Sequence[str] = ()
    speaks: Speaks = Speaks.UNREACHABLE
    reason: str = ""  # of the operating system, if the address was not reached
    versions: Mapping[int, tuple[int, int]] = {}
    cluster_id: str | None = None
    certificate: bytes = b""  # of the other end (DER), if it speaks TLS

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AdvertisedFacts(NamedTuple):
    """The result of an attempt to connect to the advertised address of a node."""

    node_id: int
    endpoint: EndpointFacts
    is_local: bool  # True if the bootstrap addresses are loopback addresses
    is_itself: bool | None = None  # True if this node answers there; None if unknown


class ListenerFacts(NamedTuple):
    """A listener of a configuration on this machine; `is_node_running` if the log directory is locked."""

    name: str
    security_protocol: str
    endpoint: EndpointFacts
    is_node_running: bool
    is_own_address: bool = True  # True if this machine has the address
