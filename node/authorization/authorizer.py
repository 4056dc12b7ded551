"""Decides by super users and the ACLs of the metadata, as Apache Kafka's StandardAuthorizer does."""

from weakref import WeakValueDictionary

from ottla.metadata_raft.acl import AclOperation, ResourceType, host_in_entries
from ottla.metadata_raft.acl_set import AclDecision, AclSet, AuthorizerSettings, ClientIdentity, decide
from ottla.node.authorization.access import Access, LogDecision


class Authorizer:
    """Returns the rights of clients, and discards cached decisions when an ACL changes."""

    def __init__(self, settings: AuthorizerSettings, log_decision: LogDecision | None = None) -> None:
        """`log_decision` records decisions in the audit log."""
        self.settings = settings
        self._log_decision = log_decision
        self._acls: AclSet | None = None  # until the metadata is loaded
        # Shared by all connections of a principal from an address, and freed with the last of them.
        self._known: WeakValueDictionary[tuple[str, str], Access] = WeakValueDictionary()

    def access(self, principal: str, host: str) -> Access:
        """Return the rights of a principal ("TYPE:NAME") from an address."""
        host = host_in_entries(host)
        known = self._known.get((principal, host))
        if known is None:
            known = self._known[principal, host] = Access(principal, host, self)
        return known

    def update(self, acls: AclSet) -> None:
        """Replace the ACLs."""
        if acls is self._acls:
            return
        self._acls = acls
        for access in list(self._known.values()):
            access.forget()

    def has_acls(self, acls: AclSet) -> bool:
        """Return True if these are the current ACLs."""
        return acls is self._acls

    def decide(
        self, access: Access, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> AclDecision:
        """Return the decision on an operation on this resource, and the rule that decided."""
        return decide(self._acls, _identity_of(access), operation, resource_type, name, self.settings)

    def log_decision(
        self,
        access: Access,
        api: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        decision: AclDecision,
    ) -> None:
        """Record a decision about a request of an API in the audit log."""
        if self._log_decision is not None:
            self._log_decision(access.principal, access.host, api, operation, resource_type, name, decision)

    def is_allowed_somewhere(
        self, access: Access, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return True if the operation is allowed on any resource of the type, existing or not."""
        if self._acls is None:
            return access.principal in self.settings.super_users
        decision = self._acls.decide_by_resource_type(
            _identity_of(access), operation, resource_type, self.settings
        )
        return decision.is_allowed

    def authorized_operations(self, access: Access, resource_type: ResourceType, name: str) -> int:
        """Return the allowed operations, as bits."""
        acls, settings = self._acls, self.settings
        if acls is None:
            acls, settings = AclSet(), settings._replace(allow_everyone_if_no_acl_found=False)
        return acls.authorized_operations(_identity_of(access), resource_type, name, settings)


def _identity_of(access: Access) -> ClientIdentity:
    return ClientIdentity(access.principal, access.host)
