"""Whether somebody may do something to a resource, and by which rule.

The answer is that of the nodes' own code, from the entries that the cluster tells and the settings of the
node that is asked.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry, AclFilter, AclOperation, PatternType, ResourceType
from ottla.metadata_raft.acl_set import AclSet, Asker, AuthorizerSettings, Decision, super_users
from ottla.node.client.acl_admin import list_acls
from ottla.node.client.cluster_client import Client
from ottla.node.client.config_admin import config_of_broker, describe_resources

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class AccessAnswer(NamedTuple):
    """The decision about one question. `has_settings` tells whether the settings of a node were read."""

    decision: Decision
    has_settings: bool


async def check_access(
    client: Client, asker: Asker, operation: AclOperation, resource_type: ResourceType, name: str
) -> AccessAnswer:
    """Return whether the asker may do this to the resource of this name."""
    selected = AclFilter(resource_type=resource_type, resource_name=name, pattern_type=PatternType.MATCH)
    entries = await list_acls(client, selected)
    settings = await authorizer_settings(client)
    decision = decide(entries, asker, operation, resource_type, name, settings or AuthorizerSettings())
    return AccessAnswer(decision, settings is not None)


def decide(
    entries: Sequence[AccessControlEntry],
    asker: Asker,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    settings: AuthorizerSettings,
) -> Decision:
    """Return what a node with these entries and settings decides."""
    by_id: dict[bytes, AccessControlEntry | None] = {
        number.to_bytes(16, "big"): entry for number, entry in enumerate(dict.fromkeys(entries))
    }
    return AclSet().changed(by_id).decide(asker, operation, resource_type, name, settings)


async def authorizer_settings(client: Client) -> AuthorizerSettings | None:
    """Return the settings that decide where no entry does, None if this client may not read them."""
    node_id = await client.node_id_of(await client.any_node())
    if node_id < 0:
        return None
    of = config_of_broker(node_id)
    try:
        found = (await describe_resources(client, [of]))[of]
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return None
        raise
    values = {one.name: one.value or "" for one in found}
    return AuthorizerSettings(
        super_users=super_users(values.get(SUPER_USERS, "")),
        allow_everyone_if_no_acl_found=values.get(ALLOW_EVERYONE, "").lower() == "true",
    )
