"""The options of a source: those read, those without effect, and the errors of invalid ones."""

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.option_names import HONOURED, REFUSED
from ottla.pipeline.source.range_limits import AtOffsets, AtTimestamp, AtTimestamps, Edge
from ottla.pipeline.source.source_options import (
    Assigned,
    Mode,
    SourceOptions,
    TopicPattern,
    Topics,
    check_for_any_mode,
)
from ottla.pipeline.words import OptionError

LEAST = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
OFFSETS = '{"t": {"0": 5, "1": -1}}'


def lower(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options in lower case, as Spark hands them over."""
    return {name.lower(): value for name, value in options.items()}


def stream(**given: str) -> SourceOptions:
    """Read options of a stream; `__` stands for a dot."""
    return _read(Mode.STREAM, given)


def batch(**given: str) -> SourceOptions:
    """Read options of a batch; `__` stands for a dot."""
    return _read(Mode.BATCH, given)


def _read(mode: Mode, given: Mapping[str, str]) -> SourceOptions:
    options = {name.replace("__", "."): value for name, value in given.items()}
    least = LEAST if not options.keys() & {"subscribePattern", "assign"} else {**LEAST}
    if options.keys() & {"subscribePattern", "assign"} and "subscribe" not in options:
        least.pop("subscribe")
    return SourceOptions.from_options(lower({**least, **options}), mode)


@pytest.mark.parametrize(
    ("name", "value", "subscription"),
    [
        ("subscribe", "a", Topics(names=("a",))),
        ("subscribe", " a, b ,,a", Topics(names=("a", "b"))),
        (
            "assign",
            '{"a": [0, 2]}',
            Assigned(partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 2)})),
        ),
    ],
)
def test_topics_are_named_in_one_of_three_ways(name: str, value: str, subscription: object) -> None:
    assert stream(**{name: value}).subscription == subscription


def test_a_pattern_is_a_regular_expression() -> None:
    subscription = stream(subscribePattern=" flights-.* ").subscription

    assert isinstance(subscription, TopicPattern)
    assert subscription.pattern.search("the-flights-2013") and not subscription.pattern.search("flights")


def test_a_pattern_has_javas_syntax() -> None:
    subscription = stream(subscribePattern=r"^[a-z&&[^x]]+\Q.v1\E$").subscription

    assert isinstance(subscription, TopicPattern)
    names = ("orders.v1", "index.v1", "orders-v1")
    assert [name for name in names if subscription.pattern.search(name)] == ["orders.v1"]


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("failOnDataLoss", "FALSE", "fail_on_data_loss", False),
        ("acceptNewTopicIds", "true", "accept_new_topic_ids", True),
        ("minPartitions", "4", "min_partitions", 4),
        ("maxRecordsPerPartition", "1000", "max_records_per_partition", 1000),
        ("maxOffsetsPerTrigger", " 10 ", "max_offsets_per_trigger", 10),
        ("minOffsetsPerTrigger", "+3", "min_offsets_per_trigger", 3),
        ("includeHeaders", "true", "include_headers", True),
        ("kafka.group.id", "g", "group_id", "g"),
        ("fetchOffset.numRetries", "7", "fetch_offset_retries", 7),
        ("fetchOffset.retryIntervalMs", "0", "fetch_offset_interval_ms", 0),
        ("startingOffsetsByTimestampStrategy", "LATEST", "latest_if_no_match", True),
    ],
)
def test_a_stream_reads_an_option(name: str, value: str, field: str, read: object) -> None:
    assert getattr(stream(**{name: value}), field) == read


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("100", 100), ("100ms", 100), ("2S", 2_000), ("3min", 180_000), ("1h", 3_600_000)]
)
def test_a_delay_has_sparks_units(text: str, delay_ms: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == delay_ms


def test_defaults_are_the_connectors() -> None:
    options = stream()

    assert options.start is Edge.LATEST
    assert batch().start is Edge.EARLIEST
    assert batch().end is Edge.LATEST
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_ms == 15 * 60 * 1000
    assert options.fetch_offset_retries == 3
    assert options.group_id is None
    assert options.without_effect == ()


def test_the_time_of_a_poll_is_that_of_all_attempts_of_a_fetch() -> None:
    assert stream(kafkaConsumer__pollTimeoutMs="777").client.default_api_timeout_ms == 777


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"startingOffsets": " Earliest "}, Edge.EARLIEST),
        ({"startingTimestamp": "12"}, AtTimestamp(timestamp_ms=12)),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 12}}'},
            AtTimestamps(timestamps_ms={TopicPartition("t", 0): 12}),
        ),
    ],
)
def test_a_stream_begins_where_its_options_say(given: dict[str, str], limit: object) -> None:
    assert stream(**given).start == limit


def test_a_stream_begins_at_offsets() -> None:
    start = stream(startingOffsets=OFFSETS).start

    assert isinstance(start, AtOffsets)
    assert start.offsets.offsets == {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "5"),
        ("minOffsetsPerTrigger", "5"),
        ("maxTriggerDelay", "5"),
        ("groupIdPrefix", "g"),
        ("kafka.group.id", "g"),
        ("startingOffsetsByTimestampStrategy", "latest"),
        ("kafka.max.poll.records", "5"),
        ("kafka.acks", "all"),
    ],
)
def test_an_option_of_no_use_in_a_batch_is_named_as_without_effect(name: str, value: str) -> None:
    options = batch(**{name: value})

    assert [idle for idle, _ in options.without_effect] == [name]
    assert options.group_id is None


def test_a_delay_without_a_minimum_has_no_effect() -> None:
    assert stream(maxTriggerDelay="1s").without_effect[0][0] == "maxTriggerDelay"
    assert stream(maxTriggerDelay="1s", minOffsetsPerTrigger="2").without_effect == ()


@pytest.mark.parametrize(
    ("given", "at_ends"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": OFFSETS}, True),
        ({"startingOffsets": '{"t": {"0": -2}}'}, False),
        ({"startingTimestamp": "5"}, False),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_a_stream_may_begin_where_logs_end(given: dict[str, str], at_ends: bool) -> None:
    assert stream(**given).starts_at_latest is at_ends


# ---- groups -------------------------------------------------------------------------------------


def test_a_group_with_a_prefix_is_stable_and_depends_on_the_topics() -> None:
    first = stream(groupIdPrefix="jobs", subscribe="a").group_id

    assert first is not None
    assert first.startswith("jobs-")
    assert stream(groupIdPrefix="jobs", subscribe=" a ", maxOffsetsPerTrigger="5").group_id == first
    assert stream(groupIdPrefix="jobs", subscribe="b").group_id != first


def test_the_whole_name_of_a_group_wins_over_a_prefix() -> None:
    options = stream(groupIdPrefix="jobs", kafka__group__id="mine")

    assert options.group_id == "mine"
    assert [idle for idle, _ in options.without_effect] == ["groupIdPrefix"]


# ---- refusals -----------------------------------------------------------------------------------


def refused(mode: Mode, given: Mapping[str, str]) -> OptionError:
    with pytest.raises(OptionError) as raised:
        SourceOptions.from_options(lower(given), mode)
    return raised.value


REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"subscribe": None}, "subscribe", "is missing; use one of subscribe, subscribePattern or assign"),
    ({"subscribePattern": "x"}, "subscribePattern", "cannot be used together with subscribe"),
    ({"assign": '{"t": [0]}'}, "assign", "cannot be used together with subscribe"),
    ({"subscribe": " , "}, "subscribe", "names no topic"),
    ({"subscribe": "a b"}, "subscribe", "not allowed"),
    ({"subscribe": None, "subscribePattern": "("}, "subscribePattern", "not a Java regular expression"),
    ({"subscribe": None, "subscribePattern": " "}, "subscribePattern", "is empty"),
    ({"startingOffsets": '{"a": "newest"}'}, "startingOffsets", "'newest' is not of the form"),
    ({"startingOffsets": '{"a/b": "latest"}'}, "startingOffsets", "a/b"),
    ({"subscribe": None, "assign": "t:0"}, "assign", "is not valid JSON"),
    ({"subscribe": None, "assign": "{}"}, "assign", "names no partition"),
    ({"subscribe": None, "assign": '{"t": 0}'}, "assign", "no list of partitions"),
    ({"subscribe": None, "assign": '{"t": ["0"]}'}, "assign", "not a whole number"),
    ({"subscribe": None, "assign": '{"t": [true]}'}, "assign", "not a whole number"),
    ({"subscribe": None, "assign": '{"t": [2147483648]}'}, "assign", "is not from 0 to 2147483647"),
    ({"startingOffset": "earliest"}, "startingoffset", "is not an option of this source; startingOffsets?"),
    ({"x-y-z": "1"}, "x-y-z", "is not an option of this source"),
    ({"topic": "t"}, "topic", "of the sink"),
    ({"path": "t"}, "path", "subscribe"),
    ({"transactional.id": "t"}, "transactional.id", "of the sink"),
    ({"delivery.guarantee": "t"}, "delivery.guarantee", "of the sink"),
    ({"kafka.bootstrap.servers": None}, "kafka.bootstrap.servers", "is missing"),
    ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset", "startingOffsets"),
    ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit", "checkpoint"),
    ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer", "columns"),
    ({"failOnDataLoss": "no"}, "failOnDataLoss", "'no'; it must be true or false"),
    ({"includeHeaders": "1"}, "includeHeaders", "true or false"),
    ({"minPartitions": "0"}, "minPartitions", "must be from 1"),
    ({"minPartitions": "2147483648"}, "minPartitions", "to 2147483647"),
    ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition", "must be from 1"),
    ({"maxOffsetsPerTrigger": "ten"}, "maxOffsetsPerTrigger", "'ten'; it must be a whole number"),
    ({"maxOffsetsPerTrigger": "9" * 19}, "maxOffsetsPerTrigger", "it must be from"),
    ({"fetchOffset.numRetries": "0"}, "fetchOffset.numRetries", "must be from 1"),
    ({"kafkaConsumer.pollTimeoutMs": "x"}, "kafkaConsumer.pollTimeoutMs", "a whole number"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay", "15m"),
    ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay", "15m"),
    ({"groupIdPrefix": ""}, "groupIdPrefix", "is empty"),
    ({"startingOffsets": "early"}, "startingOffsets", "earliest or latest, or offsets"),
    ({"startingOffsets": '{"t": {"0": 1'}, "startingOffsets", "is not valid JSON"),
    ({"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets", "-3 of t-0 is not from -2 to"),
    ({"startingOffsets": '{"t": {"zero": 3}}'}, "startingOffsets", "'zero' is not a partition of topic t"),
    ({"startingOffsets": '{"t": {"0": 1.5}}'}, "startingOffsets", "not a whole number"),
    ({"startingOffsets": '{"t": [1]}'}, "startingOffsets", "is not of the form"),
    ({"startingTimestamp": "yesterday"}, "startingTimestamp", "milliseconds since 1970"),
    ({"startingTimestamp": "-1"}, "startingTimestamp", "milliseconds since 1970"),
    ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "startingOffsetsByTimestamp", "is not from 0 to"),
    (
        {"startingOffsets": "earliest", "startingTimestamp": "5"},
        "startingOffsets",
        "cannot be used together with startingTimestamp; use one of startingTimestamp,"
        " startingOffsetsByTimestamp or",
    ),
    (
        {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"t": {"0": 5}}'},
        "startingOffsetsByTimestamp",
        "cannot be used together with startingTimestamp",
    ),
    (
        {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t": {"0": 5}}'},
        "startingOffsets",
        "cannot be used together with startingOffsetsByTimestamp",
    ),
    (
        {"startingOffsetsByTimestampStrategy": "guess"},
        "startingOffsetsByTimestampStrategy",
        "one of error, latest",
    ),
]
STREAM_OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"where": "offset >= 1"}, "where", "filter the rows of a stream in its query"),
    ({"endingOffsets": "latest"}, "endingOffsets", "a stream has no end"),
    ({"endingTimestamp": "1"}, "endingTimestamp", "a stream has no end"),
    ({"endingOffsetsByTimestamp": OFFSETS}, "endingOffsetsByTimestamp", "a stream has no end"),
    (
        {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        "minOffsetsPerTrigger",
        "is 5, which is more than maxOffsetsPerTrigger, 4",
    ),
]
OF_BATCHES: list[tuple[dict[str, Any], str, str]] = [
    ({"where": "key = 1"}, "where", "names 'key'"),
    ({"startingOffsets": "latest"}, "startingOffsets", "is latest"),
    ({"startingOffsets": OFFSETS}, "startingOffsets", "is latest"),
    ({"endingOffsets": "earliest"}, "endingOffsets", "is earliest"),
    ({"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets", "is earliest"),
    (
        {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 4}}'},
        "endingOffsets",
        "is 4 for t-0, which is before startingOffsets, 5",
    ),
    (
        {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 9, "1": 9}}'},
        "startingOffsets",
        "does not name t-1, but endingOffsets does",
    ),
    (
        {"endingOffsets": "latest", "endingTimestamp": "5"},
        "endingOffsets",
        "cannot be used together with endingTimestamp; use one of",
    ),
    (
        {"endingTimestamp": "5", "endingOffsetsByTimestamp": '{"t": {"0": 5}}'},
        "endingOffsetsByTimestamp",
        "cannot be used together with endingTimestamp",
    ),
    (
        {"startingTimestamp": "5", "endingTimestamp": "4"},
        "endingTimestamp",
        "is 4, which is before startingTimestamp",
    ),
    (
        {
            "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
            "endingOffsetsByTimestamp": '{"t": {"0": 4}}',
        },
        "endingOffsetsByTimestamp",
        "is 4 for t-0",
    ),
]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("changes", "option", "reason"), REFUSALS)
def test_invalid_options_are_refused_by_name(
    mode: Mode, changes: dict[str, str | None], option: str, reason: str
) -> None:
    given = {name: value for name, value in {**LEAST, **changes}.items() if value is not None}

    error = refused(mode, given)

    assert error.option == option
    assert reason in error.problem
    with pytest.raises(OptionError):
        check_for_any_mode(lower(given))


@pytest.mark.parametrize(
    ("mode", "changes", "option", "reason"),
    [
        *((Mode.STREAM, *one) for one in STREAM_OPTIONS),
        *((Mode.BATCH, *one) for one in OF_BATCHES),
    ],
)
def test_options_of_the_other_mode_are_refused_by_name(
    mode: Mode, changes: dict[str, str], option: str, reason: str
) -> None:
    error = refused(mode, {**LEAST, **changes})

    assert error.option == option
    assert reason in error.problem


@pytest.mark.parametrize("mode", Mode)
def test_options_of_one_mode_have_a_schema(mode: Mode) -> None:
    given = {Mode.STREAM: {"startingOffsets": "latest"}, Mode.BATCH: {"endingOffsets": "latest"}}[mode]

    assert check_for_any_mode(lower({**LEAST, **given, "includeHeaders": "true"})).include_headers


def test_every_option_of_the_connector_is_decided() -> None:
    # The names are those of the connector's KafkaSourceProvider, 4.2.
    connector = {
        *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "failOnDataLoss"),
        *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingTimestamp", "endingTimestamp"),
        *("startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition", "groupIdPrefix"),
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "includeHeaders", "topic"),
        *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs"),
    }

    assert connector <= {*HONOURED, *REFUSED}
