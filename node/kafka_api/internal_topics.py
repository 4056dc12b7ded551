"""The rules about writes to the internal topics of the cluster."""

from ottla.metadata_raft.image import INTERNAL_TOPICS

ADMIN_CLIENT_ID = "__admin_client"  # Kafka's client id of a tool that may write internal topics.


def is_internal_topic(topic: str) -> bool:
    return topic in INTERNAL_TOPICS
