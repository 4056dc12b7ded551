"""The rights of the client of a connection.

All connections of one principal from one address share an `Access`. It caches decisions until an ACL changes
or the cache is full. Without an authorizer, and for the cluster's own nodes, it allows everything.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import repeat
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    CLUSTER_NAME,
    KNOWN_OPERATIONS,
    AclOperation,
    ResourceType,
    operation_bits,
)
from ottla.metadata_raft.acl_set import AclDecision, DefaultRule
from ottla.node.settings import authorization_settings

ANONYMOUS: Final = authorization_settings.ANONYMOUS
MAX_DECISIONS: Final = 4_096  # cached by one Access; then the cache is emptied

# The error of a request that is denied an operation on a resource of this type.
REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


_ALL_OPERATIONS: Final = {one: operation_bits(one) for one in KNOWN_OPERATIONS}
GROUP_DENIED: Final = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

# Records a decision in the audit log: principal, address, API, operation, type and name of the resource.
LogDecision = Callable[[str, str, str, AclOperation, ResourceType, str, AclDecision], None]


class AccessDenied(KafkaError):
    """Raised by a handler to reject a whole request; each element of the response has this error."""


class Decider(Protocol):
    """Decides what `Access` has not cached."""

    def decide(
        self, access: "Access", operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        """Return the decision on an operation on this resource, and the rule that decided."""
        ...

    def log_decision(
        self,
        access: "Access",
        api: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        decision: AclDecision,
    ) -> None:
        """Record a decision about a request of an API in the audit log."""
        ...

    def is_allowed_somewhere(
        self, access: "Access", operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return True if the operation is allowed on any resource of the type, existing or not."""
        ...

    def authorized_operations(self, access: "Access", resource_type: ResourceType, name: str) -> int:
        """Return the allowed operations, as bits."""
        ...


class Access:
    """The rights of one principal from one address, decided on first use.

    The object for a single request (`of_request`) uses that of its connection, and sends denials to the audit
    log, once for each resource, and permissions that were not cached.

    `is_open` is True if everything is allowed. `writes` and `transactional_ids` cache topics and ids that the
    client may write; for others call `allows`.
    """

    __slots__ = (
        "__weakref__",
        "_api",
        "_decider",
        "_decisions",
        "_logged",
        "_shared",
        "_somewhere",
        "host",
        "is_open",
        "principal",
        "transactional_ids",
        "writes",
    )

    def __init__(self, principal: str, host: str, decider: Decider | None = None) -> None:
        """`principal` is "TYPE:NAME", `host` the address as text; without a decider everything is allowed."""
        self.principal = principal
        self.host = host
        self.is_open = decider is None
        self.writes: set[str] = set()
        self.transactional_ids: set[str] = set()
        self._decider = decider
        self._decisions: dict[tuple[AclOperation, ResourceType, str], AclDecision] = {}
        self._somewhere: dict[tuple[AclOperation, ResourceType], bool] = {}
        self._shared: Access | None = None  # of the connection, if this is for a request
        self._api = ""
        self._logged: set[tuple[AclOperation, ResourceType, str]] = set()

    def of_request(self, api: str) -> "Access":
        """Return these rights for one request of an API, whose decisions go to the audit log."""
        if self.is_open:
            return self
        access = Access(self.principal, self.host, self._decider)
        access._shared, access._api = self, api
        return access

    def allows(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Return True if the operation on this resource is allowed.

        Without `log_if_denied` a denial is not logged: a list is filtered, or another right suffices.
        """
        decider = self._decider
        if decider is None:
            return True
        shared = self if self._shared is None else self._shared
        resource = (operation, resource_type, name)
        decision = shared._decisions.get(resource)
        is_new = decision is None
        if decision is None:
            decision = shared._decide(decider, operation, resource_type, name)
        is_logged = is_new if decision.is_allowed else log_if_denied
        if is_logged and shared is not self and resource not in self._logged:
            self._logged.add(resource)
            decider.log_decision(self, self._api, operation, resource_type, name, decision)
        return decision.is_allowed

    def _decide(
        self, decider: Decider, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        """Decide, and cache the decision."""
        decisions, writes, ids = self._decisions, self.writes, self.transactional_ids
        # A thread that decides while an ACL changes writes into the old dict, which is discarded.
        decision = decider.decide(self, operation, resource_type, name)
        decisions[operation, resource_type, name] = decision
        if decision.is_allowed and operation is AclOperation.WRITE:
            if resource_type is ResourceType.TOPIC:
                writes.add(name)
            elif resource_type is ResourceType.TRANSACTIONAL_ID:
                ids.add(name)
        if len(decisions) >= MAX_DECISIONS:
            self.forget()
        return decision

    def allows_each(
        self, operation: AclOperation, resource_type: ResourceType, names: Collection[str]
    ) -> Iterator[bool]:
        """Yield for each name whether the operation is allowed, decided lazily."""
        if self._decider is None:
            return repeat(True, len(names))
        return (self.allows(operation, resource_type, name) for name in names)

    def check(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Raise AccessDenied unless the operation on this resource is allowed."""
        if not self.allows(operation, resource_type, name):
            raise AccessDenied(
                REFUSALS[resource_type],
                f"{self.principal} from {self.host} needs {operation.name} permission on "
                f"{resource_type.name} {name!r}.",
            )

    def allows_of_cluster(self, operation: AclOperation, *, log_if_denied: bool = True) -> bool:
        """Return True if the operation on the cluster is allowed."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)

    def is_granted_of_cluster(self, operation: AclOperation) -> bool:
        """Return True if the client is a super user, or an ACL allows it this operation on the cluster.

        An operation that is open to all clients, without an authorizer or by
        `allow.everyone.if.no.acl.found`, is not granted.
        """
        if self._decider is None:
            return False
        decision = self._decider.decide(self, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        return decision.is_allowed and decision.rule is not DefaultRule.ALLOW

    def allows_somewhere(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return True if the operation is allowed on any resource of the type, existing or not."""
        decider = self._decider
        if decider is None:
            return True
        kind = (operation, resource_type)
        decisions = (self._shared or self)._somewhere
        decision = decisions.get(kind)
        if decision is None:
            decision = decisions[kind] = decider.is_allowed_somewhere(self, operation, resource_type)
        return decision

    def topic_filter(self) -> Callable[[str], bool] | None:
        """Return a thread-safe predicate of the topics that the client may describe, or None for all topics.

        Nothing is cached: it may be called for every topic.
        """
        decider = self._decider
        if decider is None:
            return None
        return lambda name: decider.decide(self, AclOperation.DESCRIBE, ResourceType.TOPIC, name).is_allowed

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the allowed operations: bit n stands for the `AclOperation` of number n."""
        decider = self._decider
        if decider is None:
            return _ALL_OPERATIONS[resource_type]
        return decider.authorized_operations(self, resource_type, name)

    def forget(self) -> None:
        """Discard all cached decisions: an ACL has changed, or the cache is full."""
        self._decisions = {}
        self._somewhere = {}
        self.writes = set()
        self.transactional_ids = set()
