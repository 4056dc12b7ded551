"""Decides if a principal may perform an operation on a resource, and names the rule that decides.

The decision is made by the nodes' own code, from the entries that the cluster returns and the settings of one
node.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry, AclFilter, AclOperation, PatternType, ResourceType
from ottla.metadata_raft.acl_set import AclDecision, AclSet, AuthorizerSettings, ClientIdentity, super_users
from ottla.node.client.acl_admin import list_acls
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import config_of_broker, describe_resources

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class AccessRules(NamedTuple):
    """The entries for one resource, and the settings that decide if no entry matches.

    The settings are None if this client may not read them; then they count as unset.
    """

    acls: AclSet
    settings: AuthorizerSettings | None
    resource_type: ResourceType
    name: str

    def decide(self, client: ClientIdentity, operation: AclOperation) -> AclDecision:
        """Return the decision of a node for this principal and host."""
        settings = self.settings or AuthorizerSettings()
        return self.acls.decide(client, operation, self.resource_type, self.name, settings)


async def access_rules(client: Client, resource_type: ResourceType, name: str) -> AccessRules:
    """Return the entries and settings that decide about a resource."""
    selected = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
    acls = set_of(await list_acls(client, selected))
    return AccessRules(acls, await authorizer_settings(client), resource_type, name)


def set_of(entries: Sequence[AccessControlEntry]) -> AclSet:
    """Return entries in the structure that nodes keep them in."""
    by_id: dict[bytes, AccessControlEntry | None] = {
        number.to_bytes(16, "big"): entry for number, entry in enumerate(dict.fromkeys(entries))
    }
    return AclSet().changed(by_id)


async def authorizer_settings(client: Client) -> AuthorizerSettings | None:
    """Return the settings that decide if no entry matches; None if this client may not read them.

    They are read from the first node that answers: all nodes of a cluster have the same.
    """
    node_ids = [one.node_id for one in (await client.refresh([])).brokers]
    problem = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no node returned its settings")
    for place, node_id in enumerate(node_ids):
        resource = config_of_broker(node_id)
        share = client.until(client.deadline.share(len(node_ids) - place))
        try:
            found = (await describe_resources(share, [resource]))[resource]
        except KafkaError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return None
            problem = error
            continue
        settings = {one.name: one for one in found if one.name in (SUPER_USERS, ALLOW_EVERYONE)}
        if any(one.is_sensitive for one in settings.values()):
            return None  # Apache Kafka hides the settings of its authorizer
        values = {name: one.value or "" for name, one in settings.items()}
        return AuthorizerSettings(
            super_users=super_users(values.get(SUPER_USERS, "")),
            allow_everyone_if_no_acl_found=values.get(ALLOW_EVERYONE, "").lower() == "true",
        )
    raise problem
