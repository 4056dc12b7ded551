"""Decides which clients may change the cluster itself.

With an authorizer, its ACLs decide. Without one, these rules hold:

Any client may change topics and groups. It may not change broker settings, voters of the quorum, leaders and
placement of replicas, transaction markers or broker registrations: one anonymous request could stop a node or
the cluster. Since no ACL says which clients may do so, such a request is accepted only from a node that has
proven its identity, from this machine, and from the addresses of the cluster's other nodes, where `ottla` and
Kafka's tools may run. `ottla.anonymous.administrators=anywhere` accepts it from every client, as Apache Kafka
without an authorizer does.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.acl_set import NO_AUTHORIZER
from ottla.node.authorization.access import ANONYMOUS, Access, LogDecision
from ottla.node.net.act_for import Caller
from ottla.node.net.connection_info import NO_PEER, ConnectionInfo

# The operations on the cluster that are restricted even without an authorizer.
CHANGES_THE_CLUSTER: Final = frozenset(
    {AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.ALTER_CONFIGS}
)
LOOK_UP_SECONDS: Final = 5.0  # between two lookups of the nodes' addresses
TIMEOUT_SECONDS: Final = 2.0  # of the lookup of one name
REST: Final = "REST"  # the API of requests over REST, in the audit log


class Administrators:
    """Decides on requests, on the node's loop.

    `host_names` returns the host names that the cluster's nodes registered, `may_be_anywhere` returns True if
    `ottla.anonymous.administrators` is `anywhere`.
    """

    def __init__(
        self,
        host_names: Callable[[], Iterable[str]],
        may_be_anywhere: Callable[[], bool],
        access_of: Callable[[str, str], Access] = Access,
        log_decision: LogDecision | None = None,
    ) -> None:
        """`access_of` returns the rights of a principal from an address; `log_decision` audits denials."""
        self._log_decision = log_decision
        self._host_names = host_names
        self._access_of = access_of
        self._may_be_anywhere = may_be_anywhere
        self._addresses: frozenset[str] = frozenset()
        self._look_up_at = 0.0
        self._turn = asyncio.Lock()

    def allows(self, connection: ConnectionInfo, *operations: AclOperation) -> bool:
        """Return True if the client may do one of these operations on the cluster, without a lookup of names.

        False is not final if there is no authorizer: `check` looks up the addresses of nodes again.
        """
        access = connection.access
        if not access.is_open:
            return any(map(access.allows_of_cluster, operations))
        if connection.peer_id != NO_PEER or not CHANGES_THE_CLUSTER.issuperset(operations):
            return True
        return self._includes(*connection.origin)

    def _includes(self, client_host: str, is_local: bool) -> bool:
        return is_local or client_host in self._addresses or self._may_be_anywhere()

    async def check(
        self,
        connection: ConnectionInfo,
        *operations: AclOperation,
        access: Access | None = None,
        api: str = "",
    ) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the client may do one of these operations on the cluster.

        `access` has the rights for this request and `api` is its API, for denials in the audit log.
        """
        if self.allows(connection, *operations):
            return
        access = connection.access if access is None else access
        if not access.is_open:
            access.allows_of_cluster(operations[-1])
            raise _refusal(access, operations[-1])
        await self._check_address(*connection.origin, operations[-1], api)

    async def check_caller(self, caller: Caller) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED if a caller of the REST API may not change the cluster.

        With an authorizer, the broker that gets a request decides instead.
        """
        if self._access_of(caller.principal, caller.host).is_open:
            await self._check_address(caller.host, caller.is_local, AclOperation.ALTER, REST)

    async def _check_address(
        self, client_host: str, is_local: bool, operation: AclOperation, api: str
    ) -> None:
        if not self._includes(client_host, is_local):
            await self._look_up()
        if not self._includes(client_host, is_local):
            if self._log_decision is not None:
                self._log_decision(
                    ANONYMOUS, client_host, api, operation, ResourceType.CLUSTER, CLUSTER_NAME, NO_AUTHORIZER
                )
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "There is no authorizer, so only clients on the machines of the cluster's nodes "
                "may change the cluster itself. Set ottla.anonymous.administrators=anywhere to "
                "allow every client that can connect.",
            )

    async def _look_up(self) -> None:
        """Look up the addresses of the cluster's nodes, at most once in `LOOK_UP_SECONDS`."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() < self._look_up_at:
                return
            found: set[str] = set()
            for name in sorted(set(self._host_names())):
                try:
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        resolved = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                except (OSError, TimeoutError, UnicodeError):
                    continue  # a node that is gone, or a name that only clients can resolve
                found.update(str(address[0]) for *_, address in resolved)
            self._addresses = frozenset(found)
            self._look_up_at = loop.time() + LOOK_UP_SECONDS


def _refusal(access: Access, operation: AclOperation) -> KafkaError:
    return KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{access.principal} from {access.host} needs {operation.name} permission on the cluster.",
    )
