"""Judges by the super users and the ACLs of the metadata, as Apache Kafka's StandardAuthorizer does."""

from weakref import WeakValueDictionary

from ottla.metadata_raft.acl import AclOperation, ResourceType, host_in_entries
from ottla.metadata_raft.acl_set import AclSet, Asker, AuthorizerSettings, Decision, decide
from ottla.node.authorization.access import Access, Tell


class Authorizer:
    """Hands out what clients may do, and has it judged anew when an ACL changes."""

    def __init__(self, settings: AuthorizerSettings, tell: Tell | None = None) -> None:
        """`tell` takes the decisions that the audit log tells."""
        self.settings = settings
        self._tell = tell
        self._acls: AclSet | None = None  # until the metadata of this node are read
        # All connections of a principal from an address share one, which ends with the last of them.
        self._known: WeakValueDictionary[tuple[str, str], Access] = WeakValueDictionary()

    def access(self, principal: str, host: str) -> Access:
        """Return what a principal ("TYPE:NAME") may do from an address."""
        host = host_in_entries(host)
        known = self._known.get((principal, host))
        if known is None:
            known = self._known[principal, host] = Access(principal, host, self)
        return known

    def update(self, acls: AclSet) -> None:
        """Judge by these ACLs from now on."""
        if acls is self._acls:
            return
        self._acls = acls
        for access in list(self._known.values()):
            access.forget()

    def judges_by(self, acls: AclSet) -> bool:
        """Return whether these are the ACLs by which it judges now."""
        return acls is self._acls

    def decide(
        self, access: Access, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Return whether the client may do this to the resource of this name, and by which rule."""
        return decide(self._acls, _asker(access), operation, resource_type, name, self.settings)

    def tell(
        self,
        access: Access,
        api: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        decision: Decision,
    ) -> None:
        """Have the audit log tell a decision about a request of an API."""
        if self._tell is not None:
            self._tell(access.principal, access.host, api, operation, resource_type, name, decision)

    def is_allowed_somewhere(
        self, access: Access, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether the client may do this to any resource of the type, one that exists or not."""
        if self._acls is None:
            return access.principal in self.settings.super_users
        asked = self._acls.decide_by_resource_type(_asker(access), operation, resource_type, self.settings)
        return asked.is_allowed

    def authorized_operations(self, access: Access, resource_type: ResourceType, name: str) -> int:
        """Return the operations that are allowed, by bits."""
        acls, settings = self._acls, self.settings
        if acls is None:
            acls, settings = AclSet(), settings._replace(allow_everyone_if_no_acl_found=False)
        return acls.authorized_operations(_asker(access), resource_type, name, settings)


def _asker(access: Access) -> Asker:
    return Asker(access.principal, access.host)
