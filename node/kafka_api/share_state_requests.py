"""The common parts of the APIs of the state of share-partitions (83 to 87).

Leaders of share-partitions and coordinators of share groups send them to the share coordinator.
"""

from typing import Any, Final

from ottla.metadata_raft.acl import AclOperation
from ottla.node.kafka_api.api_description import Asks, Echo
from ottla.node.wire.request_limits import GROUP, SEVERAL, RequestLimits

ASKS: Final = Asks(of_cluster=AclOperation.CLUSTER_ACTION)
LIMITS: Final = RequestLimits(SEVERAL, {"group_id": GROUP})
ECHOES: Final = (Echo("topics", "results", ("topic_id",), Echo("partitions", "partitions", ("partition",))),)


def is_empty(request: Any, *, allows_empty_topics: bool = False) -> bool:
    """Return True if a request has no group id or no topics, to which Kafka returns an empty response.

    A topic without partitions makes it empty, too, unless `allows_empty_topics`.
    """
    topics = request.topics
    has_empty_topic = not allows_empty_topics and any(not topic.partitions for topic in topics)
    return not request.group_id or not topics or has_empty_topic
