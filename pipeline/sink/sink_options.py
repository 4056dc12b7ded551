"""The options of a sink, checked as a whole before a row is written; `client` checks the client's."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.own_options import own_options
from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.words import OptionError

# With the suffixes of the sink, tools can still show an id on one line.
MAX_ID_CHARS: Final = 200

OWN: Final = (
    "topic",
    "delivery.guarantee",
    "transactional.id",
    "transactional.id.takeover",
    "offset.syncs.topic",
    "offset.lag.max",
)
EXACTLY_ONCE_OPTIONS: Final = ("transactional.id", "transactional.id.takeover", "offset.syncs.topic")
MAX_LAG: Final = 2**31 - 1
# Spark passes its own options of a query along with ours.
SPARK_OPTIONS: Final = ("checkpointLocation", "queryName")
_SOURCE_OPTION: Final = "is an option of the source"
_MAY_SKIP: Final = (
    "is not supported by this sink: Spark could run a batch again with different "
    "rows, and neither guarantee would hold"
)
REFUSED: Final[Mapping[str, str]] = {
    "assign": f"{_SOURCE_OPTION}; use topic",
    "subscribe": f"{_SOURCE_OPTION}; use topic",
    "subscribePattern": f"{_SOURCE_OPTION}; use topic",
    **dict.fromkeys(
        (
            "startingTimestamp",
            "startingOffsetsByTimestamp",
            "startingOffsetsByTimestampStrategy",
            "startingOffsets",
            "endingTimestamp",
            "endingOffsetsByTimestamp",
            "endingOffsets",
            "failOnDataLoss",
            "fetchOffset.numRetries",
            "fetchOffset.retryIntervalMs",
            "groupIdPrefix",
            "kafkaConsumer.pollTimeoutMs",
            "maxOffsetsPerTrigger",
            "maxRecordsPerPartition",
            "maxTriggerDelay",
            "minOffsetsPerTrigger",
            "minPartitions",
            "where",
        ),
        _SOURCE_OPTION,
    ),
    "includeHeaders": f"{_SOURCE_OPTION}; the sink writes the column `headers` whenever rows have it",
    "path": "is not an option of this format; use topic",
    "asyncProgressTrackingEnabled": _MAY_SKIP,
    "asyncProgressTrackingCheckpointIntervalMs": _MAY_SKIP,
    "_asyncProgressTrackingOverrideSinkSupportCheck": _MAY_SKIP,
    "spark.speculation": "is a setting of the Spark session, and must be false there",
}
# With these values they only confirm the default.
HARMLESS: Final = frozenset({("asyncprogresstrackingenabled", "false"), ("spark.speculation", "false")})


class Guarantee(Enum):
    """The guarantee for each row when something fails on its way."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Every option that has an effect."""

    client: ClientSettings
    topic: str | None = None  # None: a column names it
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactional_id: str = ""  # "" without exactly-once
    takes_over: bool = False  # a transactional id that another query has used
    # Topic for the places of the copied rows, which have a column `offset`; None if they are not recorded.
    offset_syncs_topic: str | None = None
    offset_lag_max: int = 100  # a translated offset is at most this many rows too early

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Read the options; OptionError for the first that is unknown, wrong, or contradicts another."""
        left = {
            name: value
            for name, value in options.items()
            if (name.lower(), value.strip().lower()) not in HARMLESS
        }
        own = own_options(left, honoured=(*OWN, *SPARK_OPTIONS), refused=REFUSED, of="sink")
        values = OptionValues(own)
        read = cls(
            client=ClientSettings.from_options(options, Role.SINK),
            topic=_topic(values, "topic"),
            guarantee=Guarantee(
                values.choice(
                    "delivery.guarantee", [one.value for one in Guarantee], Guarantee.AT_LEAST_ONCE.value
                )
            ),
            transactional_id=values.optional("transactional.id") or "",
            takes_over=values.boolean("transactional.id.takeover", False),
            offset_syncs_topic=_topic(values, "offset.syncs.topic"),
            offset_lag_max=values.integer("offset.lag.max", 100, least=0, most=MAX_LAG),
        )
        if read.is_exactly_once:
            read._check_exactly_once()
        else:
            for name in EXACTLY_ONCE_OPTIONS:
                if name in own:
                    raise OptionError(name, "has an effect only with delivery.guarantee=exactly_once")
        return read

    @property
    def is_exactly_once(self) -> bool:
        return self.guarantee is Guarantee.EXACTLY_ONCE

    @property
    def compression(self) -> Compression:
        return Compression[self.client.compression_type.upper()]

    def _check_exactly_once(self) -> None:
        given = self.transactional_id
        if not given:
            raise OptionError(
                "transactional.id",
                "is missing: exactly_once needs a name that only this query uses, "
                "and that stays the same after restarts",
            )
        if len(given) > MAX_ID_CHARS or not given.isprintable():
            raise OptionError("transactional.id", f"must have at most {MAX_ID_CHARS} printable characters")
        if self.client.acks != -1:
            raise OptionError(PREFIX + "acks", "must be all with delivery.guarantee=exactly_once")
        if not self.client.enable_idempotence:
            raise OptionError(
                PREFIX + "enable.idempotence", "must be true with delivery.guarantee=exactly_once"
            )


def _topic(values: OptionValues, name: str) -> str | None:
    topic = values.optional(name)
    if topic is None:
        return None
    try:
        check_topic_name(topic)
    except KafkaError as fault:
        raise OptionError(name, fault.detail) from None
    return topic
