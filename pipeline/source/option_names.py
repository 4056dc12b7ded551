"""The options of Spark's Kafka connector: how each is written, and what becomes of it here.

Settings of Kafka's client, `kafka.*`, are judged by `client.setting_names`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
OF_STREAMS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix")
# Not the connector's, which knows no ids of topics.
ACCEPT_NEW_IDS: Final = "acceptNewTopicIds"
WHERE: Final = "where"  # the connector has none, either: it reads all that a query filters
# Set by `spark.scan_sources` where a source is of one scan alone, and refused where a user says it.
OF_ONE_SCAN: Final = "ottla.scan"
HONOURED: Final = (
    ACCEPT_NEW_IDS,
    *SUBSCRIPTIONS,
    *STARTS,
    *ENDS,
    *OF_STREAMS,
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
    "startingOffsetsByTimestampStrategy",
    WHERE,
)
REFUSED: Final[Mapping[str, str]] = {
    "delivery.guarantee": ("is an option of the sink; a query reads each row once for each of its batches"),
    "path": ("is not an option of this format; name topics with subscribe, subscribePattern or assign"),
    "topic": "is an option of the sink; use subscribe",
    "transactional.id": ("is an option of the sink; use kafka.isolation.level=read_committed"),
}


def one_of(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
