"""Decides which clients may change the cluster itself.

Where there is an authorizer its ACLs say so. Where there is none this holds:

Topics and groups belong to all clients. Settings of brokers, voters of the quorum, who leads and where
replicas lie, markers in the logs of others and the registration of brokers do not: one anonymous request
could stop a node or the cluster. Since nobody knows who asks, such a request is taken from a proven node,
from this machine, and from the addresses of the cluster's other nodes, where `ottla` and Kafka's tools may
run.
`ottla.anonymous.administrators=anywhere` takes it from everybody, as Apache Kafka without an authorizer does.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.metadata_raft.acl_set import NO_AUTHORIZER
from ottla.node.authorization.access import ANONYMOUS, Access, Tell
from ottla.node.net.act_for import Caller
from ottla.node.net.connection_info import NO_PEER, ConnectionInfo

# The rights on the cluster that not everybody has even where there is no authorizer.
CHANGES_THE_CLUSTER: Final = frozenset(
    {AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.ALTER_CONFIGS}
)
LOOK_UP_SECONDS: Final = 5.0  # between two looks for addresses that have changed
TIMEOUT_SECONDS: Final = 2.0
REST: Final = "REST"  # the API of requests over REST, in the audit log


class Administrators:
    """Judges requests on the loop of the node.

    `host_names` gives the names by which the cluster's nodes are registered, `may_be_anywhere` the setting.
    """

    def __init__(
        self,
        host_names: Callable[[], Iterable[str]],
        may_be_anywhere: Callable[[], bool],
        access_of: Callable[[str, str], Access] = Access,
        tell: Tell | None = None,
    ) -> None:
        """`access_of` gives the rights of a principal from an address; open ones where nobody judges.

        `tell` takes refusals for the audit log.
        """
        self._tell = tell
        self._host_names = host_names
        self._access_of = access_of
        self._may_be_anywhere = may_be_anywhere
        self._addresses: frozenset[str] = frozenset()
        self._look_up_at = 0.0
        self._turn = asyncio.Lock()

    def allows(self, connection: ConnectionInfo, *operations: AclOperation) -> bool:
        """Return whether the client is known to have one of these rights on the cluster, without looking up a
        name.
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
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the client has one of these rights on the cluster.

        `access` is that of the request, and `api` its API, so that the audit log tells the refusal.
        """
        if self.allows(connection, *operations):
            return
        access = connection.access if access is None else access
        if not access.is_open:
            access.allows_of_cluster(operations[-1])
            raise _refusal(access, operations[-1])
        await self._check_address(*connection.origin, operations[-1], api)

    async def check_caller(self, caller: Caller) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED for a caller of the REST API that may not change the cluster.

        Where there is an authorizer, the brokers that are asked judge each request by itself.
        """
        if self._access_of(caller.principal, caller.host).is_open:
            await self._check_address(caller.host, caller.is_local, AclOperation.ALTER, REST)

    async def _check_address(
        self, client_host: str, is_local: bool, operation: AclOperation, api: str
    ) -> None:
        if not self._includes(client_host, is_local):
            await self._look_up()
        if not self._includes(client_host, is_local):
            if self._tell is not None:
                self._tell(
                    ANONYMOUS, client_host, api, operation, ResourceType.CLUSTER, CLUSTER_NAME, NO_AUTHORIZER
                )
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "There is no authorizer, so only the machines of the cluster's nodes "
                "may change the cluster itself. Set ottla.anonymous.administrators=anywhere to "
                "allow everybody who can connect.",
            )

    async def _look_up(self) -> None:
        """Find the addresses of the cluster's nodes, unless that was done just now."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() < self._look_up_at:
                return
            found: set[str] = set()
            for name in sorted(set(self._host_names())):
                try:
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        told = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
                except (OSError, TimeoutError, UnicodeError):
                    continue  # a node that is gone, or a name that only clients know
                found.update(str(address[0]) for *_, address in told)
            self._addresses = frozenset(found)
            self._look_up_at = loop.time() + LOOK_UP_SECONDS


def _refusal(access: Access, operation: AclOperation) -> KafkaError:
    return KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{access.principal} from {access.host} needs {operation.name} permission on the cluster.",
    )
