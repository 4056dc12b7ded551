"""What a handler knows about a request beside its body: which API and version, and from whom."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """One client's connection, as it stays from accept to close."""

    connection_id: str  # Kafka's "LOCALHOST:LOCALPORT-REMOTEHOST:REMOTEPORT-NUMBER"
    listener_name: str
    security_protocol: str
    client_host: str
    client_port: int
    local_host: str  # the address of ours that the client reached
    local_port: int
    principal: str = "User:ANONYMOUS"


@dataclass(slots=True)
class RequestContext:
    """One request, from the moment its header was read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionInfo
    # What the client called itself in ApiVersions (KIP-511); "unknown" as in Kafka's metrics.
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
