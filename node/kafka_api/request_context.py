"""The facts that a handler knows about a request besides its body: API, version, client and rights."""

from dataclasses import dataclass

from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.commands import MutationPayer
from ottla.node.authorization.access import Access
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.kafka_api.request_charge import RequestCharge
from ottla.node.net.connection_info import NO_PEER, ConnectionInfo
from ottla.node.wire.peer_api import name_of

__all__ = ["ConnectionInfo", "RequestContext"]


@dataclass(slots=True)
class RequestContext:
    """One request, from the moment its header was read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionInfo
    is_large: bool = False  # it has so many elements that it must share the loop with others
    counters: RequestCounters | None = None  # of its API; they count the errors of parts of the response
    charge: RequestCharge | None = None  # if the client has a quota
    _access: Access | None = None

    def mutation_payer(self, *, strict_since: int) -> MutationPayer:
        """Return the client to whose quota new and deleted partitions count; nodes have no quota.

        Clients of version `strict_since` of the API or later know that a quota may reject their request.
        """
        if self.connection.peer_id != NO_PEER:
            return MutationPayer()
        return MutationPayer(
            principal=self.access.principal,
            client_id=self.client_id,
            is_strict=self.api_version >= strict_since,
        )

    def note_mutation_throttle(self, throttle_ms: int) -> int:
        """Note how long the controller wants the client to wait, and return it."""
        if self.charge is not None:
            self.charge.note_mutation_throttle(throttle_ms)
        return throttle_ms

    @property
    def api_name(self) -> str:
        """The name of the API, as Kafka writes it."""
        return name_of(self.api_key)

    @property
    def access(self) -> Access:
        """The rights of the client; denials are logged with the name of the API."""
        access = self._access
        if access is None:
            shared = self.connection.access
            access = self._access = shared if shared.is_open else shared.of_request(self.api_name)
        return access

    @property
    def client(self) -> ClientIdentity | None:
        """The client for which commands are given to the controller; None if the request is from a node."""
        connection = self.connection
        if connection.peer_id != NO_PEER:
            return None
        return ClientIdentity(connection.access.principal, connection.access.host)
