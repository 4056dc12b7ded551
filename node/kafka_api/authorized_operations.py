"""The operations that a client may do with a resource, as responses have them.

Bit n stands for the operation that `AclOperation` numbers n; -2^31 means that nobody asked.
"""

from typing import Final

from ottla.metadata_raft.acl import CLUSTER_NAME, ResourceType, operation_bits
from ottla.node.authorization.access import Access

NOT_ASKED: Final = -(2**31)

_OF_TOPICS: Final = operation_bits(ResourceType.TOPIC)
_OF_GROUPS: Final = operation_bits(ResourceType.GROUP)
_OF_CLUSTER: Final = operation_bits(ResourceType.CLUSTER)


def of_topic(access: Access, name: str) -> int:
    """Return what the client may do with a topic, one that exists or not."""
    return _OF_TOPICS if access.is_open else access.allowed_operations(ResourceType.TOPIC, name)


def of_group(access: Access, group_id: str) -> int:
    """Return what the client may do with a group."""
    return _OF_GROUPS if access.is_open else access.allowed_operations(ResourceType.GROUP, group_id)


def of_cluster(access: Access) -> int:
    """Return what the client may do with the cluster."""
    return _OF_CLUSTER if access.is_open else access.allowed_operations(ResourceType.CLUSTER, CLUSTER_NAME)
