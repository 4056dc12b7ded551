"""The events of the audit log.

Texts come from clients, so they are cut to a maximum length. An event contains no secrets: settings, users
and quotas appear by name, never with their values.
"""

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import AclDecision

# Topic names have at most 249 characters; a longer text is shown by its beginning.
MAX_TEXT_CHARACTERS: Final = 256
MAX_DETAIL_CHARACTERS: Final = 1_024  # such as an ACL, or the names of changed settings

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


class AccessDecision(NamedTuple):
    """A decision of the authorizer about an operation on a resource."""

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
    """A client that failed to authenticate; `user` is the name that it claimed, or empty."""

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
    """A change of the cluster that a client requested, with its result as the name of an error code."""

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


Event: TypeAlias = AccessDecision | FailedLogin | Change


def proven(principal: str) -> str:
    """Return a principal, or an empty string for the anonymous one."""
    return "" if principal == ANONYMOUS else principal


def cut(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a text, cut to the limit."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def access_decision(
    principal: str,
    address: str,
    api: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    decision: AclDecision,
) -> AccessDecision:
    """Return the event for a decision."""
    return AccessDecision(
        cut(principal),
        cut(address),
        api,
        operation.name,
        RESOURCE_WORDS[resource_type],
        cut(name),
        cut(decision.rule_text, MAX_DETAIL_CHARACTERS),
        decision.is_allowed,
    )
