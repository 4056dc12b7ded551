"""The topics that brokers keep for themselves: clients may read them, and only admin tools may write them."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
ADMIN_CLIENT_ID = "__admin_client"  # Kafka's sign of a tool that may write internal topics.


def is_internal_topic(topic: str) -> bool:
    return topic in INTERNAL_TOPICS
