"""Polls of librdkafka's share consumers, which raise an error while the group has no coordinator yet."""

from confluent_kafka import KafkaError, KafkaException, Message, ShareConsumer


def poll(consumer: ShareConsumer, seconds: float = 0.2) -> list[Message]:
    """Poll once; return no records while the coordinator of the group is not available."""
    try:
        found: list[Message] = consumer.poll(seconds)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
            raise
        return []
    return found
