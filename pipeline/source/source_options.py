"""The options of a source, checked as a whole before a request to the cluster."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition, check_topic_name
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.own_options import own_options
from ottla.pipeline.client.setting_names import PREFIX, idle_reason
from ottla.pipeline.option_values import OptionValues, shown
from ottla.pipeline.source.java_regex import PatternError, translated
from ottla.pipeline.source.option_names import (
    ACCEPT_NEW_IDS,
    ENDS,
    HONOURED,
    REFUSED,
    STARTS,
    STREAM_OPTIONS,
    SUBSCRIPTIONS,
    WHERE,
    one_of,
)
from ottla.pipeline.source.range_limits import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    RangeLimit,
    check_end,
    check_order,
    check_start,
    read_limit,
)
from ottla.pipeline.source.record_filter import KEEPS_ALL, RecordFilter
from ottla.pipeline.source.source_offsets import LATEST, SourceOffsets, read_partitions
from ottla.pipeline.source.where_option import read_where
from ottla.pipeline.words import OptionError

MAX_LONG: Final = 2**63 - 1
MAX_INT: Final = 2**31 - 1
DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
# Spark's names for units of time, in milliseconds.
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_NO_GROUP_IN_BATCHES: Final = "a batch commits nothing"


class Mode(Enum):
    """The ways to read a source."""

    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Topics by name, with all partitions that they have or get."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPattern:
    """Topics whose names the pattern is found in, also those created later.

    The pattern is given in Java's syntax, as with the connector, and is translated to Python's here.
    """

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """These partitions only."""

    partitions: frozenset[TopicPartition]


Subscription = Topics | TopicPattern | Assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Every option that has an effect; `without_effect` has (name, reason) for those given in vain."""

    client: ClientSettings
    subscription: Subscription
    start: RangeLimit
    start_name: str
    end: RangeLimit
    end_name: str
    where: RecordFilter = KEEPS_ALL
    latest_if_no_match: bool = False  # if no record is as late as a starting timestamp
    fail_on_data_loss: bool = True
    accept_new_topic_ids: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    include_headers: bool = False
    group_id: str | None = None
    fetch_offset_retries: int = 3
    fetch_offset_interval_ms: int = 1_000
    without_effect: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_options(cls, options: Mapping[str, str], mode: Mode) -> "SourceOptions":
        """Read the options; OptionError for the first that is unknown, wrong, or contradicts another."""
        own = own_options(options, honoured=HONOURED, refused=REFUSED, of="source")
        values = OptionValues(own)
        client = ClientSettings.from_options(options, Role.SOURCE)
        default = Edge.EARLIEST if mode is Mode.BATCH else Edge.LATEST
        start, start_name = read_limit(own, STARTS, default)
        end, end_name = _read_end(own, mode, start, start_name)
        timeout_ms = values.optional_integer("kafkaConsumer.pollTimeoutMs", least=1, most=MAX_INT)
        if timeout_ms is not None:
            client = replace(client, default_api_timeout_ms=timeout_ms)
        read = cls(
            client=client,
            subscription=_read_subscription(own),
            start=start,
            start_name=start_name,
            end=end,
            end_name=end_name,
            where=_read_filter(own, mode),
            latest_if_no_match=_strategy(values) == "latest",
            fail_on_data_loss=values.boolean("failOnDataLoss", True),
            accept_new_topic_ids=values.boolean(ACCEPT_NEW_IDS, False),
            min_partitions=values.optional_integer("minPartitions", least=1, most=MAX_INT),
            max_records_per_partition=values.optional_integer(
                "maxRecordsPerPartition", least=1, most=MAX_LONG
            ),
            max_offsets_per_trigger=values.optional_integer("maxOffsetsPerTrigger", least=1, most=MAX_LONG),
            min_offsets_per_trigger=values.optional_integer("minOffsetsPerTrigger", least=1, most=MAX_LONG),
            max_trigger_delay_ms=_duration_ms(values, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
            include_headers=values.boolean("includeHeaders", False),
            group_id=_group_id(own, client, mode),
            fetch_offset_retries=values.integer("fetchOffset.numRetries", 3, least=1, most=MAX_INT),
            fetch_offset_interval_ms=values.integer(
                "fetchOffset.retryIntervalMs", 1_000, least=0, most=MAX_INT
            ),
            without_effect=_without_effect(own, client, mode, start, start_name),
        )
        read._check()
        return read

    @property
    def starts_at_latest(self) -> bool:
        """True if a query may begin at the end of a log, which is elsewhere each time it is asked for."""
        match self.start:
            case Edge():
                return self.start is Edge.LATEST
            case AtOffsets(offsets=given, edges=edges):
                return LATEST in (*given.offsets.values(), *edges.values())
            case AtTimestamp() | AtTimestamps():
                return self.latest_if_no_match

    def as_known(self, offsets: SourceOffsets) -> SourceOffsets:
        """Return offsets of a checkpoint, without topic ids if the user accepts topics with new ids.

        So a topic that was restored under its name, with its offsets, continues where the query left off.
        """
        return replace(offsets, topic_ids={}) if self.accept_new_topic_ids else offsets

    def _check(self) -> None:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise OptionError(
                "minOffsetsPerTrigger", f"is {least}, which is more than maxOffsetsPerTrigger, {most}"
            )


def check_for_any_mode(options: Mapping[str, str]) -> SourceOptions:
    """Return the options for whichever mode accepts them; OptionError if neither does.

    Spark asks for a schema before it says whether the read is a batch or a stream.
    """
    try:
        return SourceOptions.from_options(options, Mode.BATCH)
    except OptionError as error:
        try:
            return SourceOptions.from_options(options, Mode.STREAM)
        except OptionError:
            raise error from None


# ---- parts --------------------------------------------------------------------------------------


def _read_subscription(own: Mapping[str, str]) -> Subscription:
    given = [name for name in SUBSCRIPTIONS if name in own]
    if not given:
        raise OptionError("subscribe", f"is missing; use one of {one_of(SUBSCRIPTIONS)}")
    if len(given) > 1:
        raise OptionError(
            given[1], f"cannot be used together with {given[0]}; use one of {one_of(SUBSCRIPTIONS)}"
        )
    name, text = given[0], own[given[0]].strip()
    if name == "assign":
        return Assigned(partitions=read_partitions(text, name))
    if name == "subscribe":
        return Topics(names=_topic_names(text))
    if not text:
        raise OptionError(name, "is empty")
    try:
        return TopicPattern(pattern=re.compile(translated(text)))
    except PatternError as fault:
        raise OptionError(name, f"{text[:80]!r} is not a Java regular expression: {fault}") from None


def _topic_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not names:
        raise OptionError("subscribe", "names no topic")
    for name in names:
        try:
            check_topic_name(name)
        except KafkaError as fault:
            raise OptionError("subscribe", fault.detail) from None
    return names


def _read_end(
    own: Mapping[str, str], mode: Mode, start: RangeLimit, start_name: str
) -> tuple[RangeLimit, str]:
    if mode is Mode.STREAM:
        for name in ENDS:
            if name in own:
                raise OptionError(name, "is for batch reads: a stream has no end")
        return Edge.LATEST, ENDS[-1]
    end, end_name = read_limit(own, ENDS, Edge.LATEST)
    check_start(start, start_name)
    check_end(end, end_name)
    check_order(start, start_name, end, end_name)
    return end, end_name


def _read_filter(own: Mapping[str, str], mode: Mode) -> RecordFilter:
    if WHERE not in own:
        return KEEPS_ALL
    if mode is Mode.STREAM:
        raise OptionError(WHERE, "is for batch reads: filter the rows of a stream in its query")
    return read_where(own[WHERE])


def _strategy(values: OptionValues) -> str:
    return values.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")


def _group_id(own: Mapping[str, str], client: ClientSettings, mode: Mode) -> str | None:
    """Return the group id, which is stable over restarts, unlike the connector's: lag tools need that."""
    prefix = own.get("groupIdPrefix", "").strip()
    if "groupIdPrefix" in own and not prefix:
        raise OptionError("groupIdPrefix", "is empty")
    if mode is Mode.BATCH:
        return None
    if client.group_id is not None or not prefix:
        return client.group_id
    subscribed = json.dumps({name: own[name].strip() for name in SUBSCRIPTIONS if name in own})
    return f"{prefix}-{hashlib.sha256(subscribed.encode()).hexdigest()[:8]}"


def _without_effect(
    own: Mapping[str, str],
    client: ClientSettings,
    mode: Mode,
    start: RangeLimit,
    start_name: str,
) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    strategy = "startingOffsetsByTimestampStrategy"
    if strategy in own and not isinstance(start, AtTimestamp | AtTimestamps):
        found[strategy] = f"{start_name} is not a timestamp"
    if mode is Mode.BATCH:
        found |= {name: "a batch is read at once" for name in STREAM_OPTIONS[:3] if name in own}
        found |= {name: _NO_GROUP_IN_BATCHES for name in STREAM_OPTIONS[3:] if name in own}
        if client.group_id is not None:
            found[PREFIX + "group.id"] = _NO_GROUP_IN_BATCHES
    else:
        if "maxTriggerDelay" in own and "minOffsetsPerTrigger" not in own:
            found["maxTriggerDelay"] = "a batch waits only with minOffsetsPerTrigger"
        if "groupIdPrefix" in own and client.group_id is not None:
            found["groupIdPrefix"] = f"{PREFIX}group.id gives the whole name"
    for name in client.without_effect:
        found[PREFIX + name] = idle_reason(name, client.security.protocol)
    return tuple(sorted(found.items()))


def _duration_ms(values: OptionValues, name: str, default_ms: int) -> int:
    text = values.optional(name)
    if text is None:
        return default_ms
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", text.lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise OptionError(
            name, f"is {shown(text)}; it must be a number with one of {', '.join(_UNITS_MS)}, as in 15m"
        )
    return int(found[1]) * _UNITS_MS[found[2] or "ms"]
