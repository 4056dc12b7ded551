"""The operations that a client may do on a resource, as responses encode them.

Bit n stands for the operation with number n in `AclOperation`; -2^31 means that the client did not ask.
"""

from typing import Final

from ottla.metadata_raft.acl import CLUSTER_NAME, ResourceType
from ottla.node.authorization.access import Access

NOT_REQUESTED: Final = -(2**31)


def of_topic(access: Access, name: str) -> int:
    """Return the operations that the client may do on a topic, which need not exist."""
    return access.authorized_operations(ResourceType.TOPIC, name)


def of_group(access: Access, group_id: str) -> int:
    """Return the operations that the client may do on a group."""
    return access.authorized_operations(ResourceType.GROUP, group_id)


def of_cluster(access: Access) -> int:
    """Return the operations that the client may do on the cluster."""
    return access.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)
