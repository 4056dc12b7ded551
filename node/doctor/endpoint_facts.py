"""What is known of an address after it was tried."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple


class Speaks(Enum):
    """What answered at an address."""

    KAFKA = "Kafka"
    TLS = "TLS"
    HTTP = "HTTP"
    CONTROLLER = "the protocol of the metadata quorum"
    OTHER = "something else"
    SILENT = "nothing"  # it took the connection and did not answer, or ended it
    REFUSED = "refused"
    DENIED = "denied"  # by either end: no trusted certificate, or no login
    UNREACHABLE = "unreachable"
    UNRESOLVED = "unresolved"


class EndpointFacts(NamedTuple):
    """An address, what its name resolves to, what answers there, and what that tells of itself."""

    host: str
    port: int
    addresses: Sequence[str] = ()
    speaks: Speaks = Speaks.UNREACHABLE
    reason: str = ""  # of the operating system, where it was not reached
    versions: Mapping[int, tuple[int, int]] = {}
    cluster_id: str | None = None
    certificate: bytes = b""  # that it shows (DER), if it speaks TLS

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AdvertisedFacts(NamedTuple):
    """A node as others are told to reach it, tried; None for what was not found out."""

    node_id: int
    endpoint: EndpointFacts
    is_asked_locally: bool  # whether the doctor itself came over a loopback address
    is_itself: bool | None = None  # whether it is this node that answers there


class ListenerFacts(NamedTuple):
    """A listener of a configuration on this machine; `is_node_running` by the lock of its log directory."""

    name: str
    security_protocol: str
    endpoint: EndpointFacts
    is_node_running: bool
    is_own_address: bool = True  # whether this machine has the address
