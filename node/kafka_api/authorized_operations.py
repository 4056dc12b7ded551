"""The operations that a client may do with a resource, as responses have them.

Bit n stands for the operation that `AclOperation` numbers n; -2^31 means that nobody asked.
"""

from typing import Final

from ottla.metadata_raft.acl import CLUSTER_NAME, ResourceType
from ottla.node.authorization.access import Access

NOT_ASKED: Final = -(2**31)


def of_topic(access: Access, name: str) -> int:
    """Return what the client may do with a topic, one that exists or not."""
    return access.allowed_operations(ResourceType.TOPIC, name)


def of_group(access: Access, group_id: str) -> int:
    """Return what the client may do with a group."""
    return access.allowed_operations(ResourceType.GROUP, group_id)


def of_cluster(access: Access) -> int:
    """Return what the client may do with the cluster."""
    return access.allowed_operations(ResourceType.CLUSTER, CLUSTER_NAME)
