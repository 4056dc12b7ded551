"""The events of the audit log.

Texts come from clients, so they are cut to a length that bounds what is kept and written of them. Nothing in
an event is a secret: of settings, users and quotas there are the names, never the values.
"""

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import Decision

# Names of topics have at most 249 characters; what is longer is told by its beginning.
MAX_TEXT_CHARACTERS: Final = 256
MAX_DETAIL_CHARACTERS: Final = 1_024  # a rule with its names, the names of settings that were changed

ANONYMOUS: Final = "User:ANONYMOUS"

# Kafka's words [SecurityUtils.resourceTypeName].
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "Topic", "Group", "Cluster", "TransactionalId"
RESOURCE_WORDS: Final = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER,
    ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


class Kind(StrEnum):
    """The kinds of events."""

    DENIED = "denied"
    ALLOWED = "allowed"
    FAILED_LOGIN = "failed_login"
    CHANGE = "change"


class Judged(NamedTuple):
    """A request that was refused, or allowed, something of a resource."""

    principal: str
    address: str
    api: str
    operation: str
    resource_type: str
    resource_name: str
    rule: str
    is_allowed: bool = False

    @property
    def kind(self) -> Kind:
        return Kind.ALLOWED if self.is_allowed else Kind.DENIED

    @property
    def proven_principal(self) -> str:
        return proven(self.principal)


class FailedLogin(NamedTuple):
    """A client that did not prove who it is; `user` is whom it claimed to be, empty if it did not say."""

    user: str
    address: str
    listener: str
    mechanism: str
    reason: str

    @property
    def kind(self) -> Kind:
        return Kind.FAILED_LOGIN

    @property
    def proven_principal(self) -> str:
        return ""


class Change(NamedTuple):
    """A change of the cluster that a client asked for, with what became of it: the name of an error code."""

    principal: str
    address: str
    api: str
    resource_type: str
    resource_name: str
    detail: str
    outcome: str

    @property
    def kind(self) -> Kind:
        return Kind.CHANGE

    @property
    def proven_principal(self) -> str:
        return proven(self.principal)


Event: TypeAlias = Judged | FailedLogin | Change


def proven(principal: str) -> str:
    """Return a principal, or nothing for the one that stands for all who have not logged in."""
    return "" if principal == ANONYMOUS else principal


def cut(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a text, or its beginning if it is longer than the limit."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def judged(
    principal: str,
    address: str,
    api: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    decision: Decision,
) -> Judged:
    """Return the event of a decision."""
    return Judged(
        cut(principal),
        cut(address),
        api,
        operation.name,
        RESOURCE_WORDS[resource_type],
        cut(name),
        cut(decision.rule_text, MAX_DETAIL_CHARACTERS),
        decision.is_allowed,
    )
