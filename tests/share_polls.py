"""Polls of librdkafka's share consumers, which tell their application of a coordinator that is on its way."""

from confluent_kafka import KafkaError, KafkaException, Message, ShareConsumer


def poll(consumer: ShareConsumer, seconds: float = 0.2) -> list[Message]:
    """Poll once; nothing comes while the coordinator of the group is on its way."""
    try:
        found: list[Message] = consumer.poll(seconds)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.COORDINATOR_NOT_AVAILABLE:
            raise
        return []
    return found
