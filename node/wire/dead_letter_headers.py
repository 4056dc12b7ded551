"""The headers by which a dead letter describes its record (KIP-1191), as in Apache Kafka's brokers."""

from typing import Final

PREFIX: Final = "__dlq.errors."
TOPIC: Final = PREFIX + "topic"
PARTITION: Final = PREFIX + "partition"
OFFSET: Final = PREFIX + "offset"
GROUP: Final = PREFIX + "group"
DELIVERY_COUNT: Final = PREFIX + "delivery.count"
MESSAGE: Final = PREFIX + "message"
