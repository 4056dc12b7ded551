"""The options of Spark's Kafka connector, in its spelling, each honoured or refused here.

`client.setting_names` judges the settings of Kafka's client, `kafka.*`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_OPTIONS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix")
# Not the connector's, which knows no topic ids.
ACCEPT_NEW_IDS: Final = "acceptNewTopicIds"
WHERE: Final = "where"  # not the connector's either: it reads all rows, and the query filters them
# Set by `spark.scan_sources` for a source of a single scan, and refused as an option of a user.
SCAN_OPTION: Final = "ottla.scan"
HONOURED: Final = (
    ACCEPT_NEW_IDS,
    *SUBSCRIPTIONS,
    *STARTS,
    *ENDS,
    *STREAM_OPTIONS,
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
    "delivery.guarantee": "is an option of the sink; the checkpoint has the offsets that were read",
    "path": "is not an option of this format; name topics with subscribe, subscribePattern or assign",
    "topic": "is an option of the sink; use subscribe",
    "transactional.id": "is an option of the sink; use kafka.isolation.level=read_committed",
}


def one_of(names: Iterable[str]) -> str:
    """Return the names in the form `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
