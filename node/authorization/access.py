"""The rights of the client of a connection.

All connections of one principal from one address share an `Access`. It remembers each decision until an ACL
changes; where there is no authorizer, and for the cluster's own nodes, it allows everything at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    CLUSTER_NAME,
    KNOWN_OPERATIONS,
    AclOperation,
    ResourceType,
    operation_bits,
)

ANONYMOUS: Final = "User:ANONYMOUS"
MAX_DECISIONS: Final = 4_096  # that one Access remembers; then it begins anew

# The error of a request that asks for something of such a resource in vain.
REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


_ALL_OPERATIONS: Final = {one: operation_bits(one) for one in KNOWN_OPERATIONS}
GROUP_DENIED: Final = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


class AccessDenied(KafkaError):
    """Raised by a handler that refuses a request as a whole; each of its elements is answered so, too."""


class Judge(Protocol):
    """Decides for the first time."""

    def is_allowed(
        self, access: "Access", operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether the client may do this to the resource of this name."""
        ...

    def is_allowed_somewhere(
        self, access: "Access", operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether the client may do this to any resource of the type, one that exists or not."""
        ...

    def authorized_operations(self, access: "Access", resource_type: ResourceType, name: str) -> int:
        """Return the operations that are allowed, by bits."""
        ...


class Access:
    """The rights of one principal from one address, judged when they are first asked for.

    `is_open` says that everything is allowed. `writes` has topics, and `transactional_ids` ids, of which it
    is known that they may be written; what is not in them has to be asked for by `allows`.
    """

    __slots__ = (
        "__weakref__",
        "_decisions",
        "_judge",
        "host",
        "is_open",
        "principal",
        "transactional_ids",
        "writes",
    )

    def __init__(self, principal: str, host: str, judge: Judge | None = None) -> None:
        """`principal` is "TYPE:NAME", `host` the address as a text; without a judge everything is allowed."""
        self.principal = principal
        self.host = host
        self.is_open = judge is None
        self.writes: set[str] = set()
        self.transactional_ids: set[str] = set()
        self._judge = judge
        self._decisions: dict[tuple[AclOperation, ResourceType, str | None], bool] = {}

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may do this to the resource of this name."""
        judge = self._judge
        if judge is None:
            return True
        asked = (operation, resource_type, name)
        decisions, writes, ids = self._decisions, self.writes, self.transactional_ids
        decision = decisions.get(asked)
        if decision is None:
            # A thread that decides while an ACL changes writes into the old dict, which is forgotten.
            decision = decisions[asked] = judge.is_allowed(self, operation, resource_type, name)
            if decision and operation is AclOperation.WRITE:
                if resource_type is ResourceType.TOPIC:
                    writes.add(name)
                elif resource_type is ResourceType.TRANSACTIONAL_ID:
                    ids.add(name)
            if len(decisions) >= MAX_DECISIONS:
                self.forget()
        return decision

    def check(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Raise AccessDenied unless the client may do this to the resource of this name."""
        if not self.allows(operation, resource_type, name):
            raise AccessDenied(
                REFUSALS[resource_type],
                f"{self.principal} from {self.host} needs {operation.name} permission on "
                f"{resource_type.name} {name!r}.",
            )

    def allows_of_cluster(self, operation: AclOperation) -> bool:
        """Return whether the client may do this to the cluster."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_somewhere(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client may do this to any resource of the type, one that exists or not."""
        judge = self._judge
        if judge is None:
            return True
        asked = (operation, resource_type, None)
        decisions = self._decisions
        decision = decisions.get(asked)
        if decision is None:
            decision = decisions[asked] = judge.is_allowed_somewhere(self, operation, resource_type)
        return decision

    def sees_topic(self) -> Callable[[str], bool] | None:
        """Return what tells, in any thread, whether the client may describe a topic; None: it may all.

        Nothing is remembered of it: it may be asked about every topic there is.
        """
        judge = self._judge
        if judge is None:
            return None
        return partial(judge.is_allowed, self, AclOperation.DESCRIBE, ResourceType.TOPIC)

    def allowed_operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the operations that are allowed: bit n stands for the one that `AclOperation` numbers n."""
        judge = self._judge
        if judge is None:
            return _ALL_OPERATIONS[resource_type]
        return judge.authorized_operations(self, resource_type, name)

    def forget(self) -> None:
        """Forget all decisions, since an ACL has changed."""
        self._decisions = {}
        self.writes = set()
        self.transactional_ids = set()
