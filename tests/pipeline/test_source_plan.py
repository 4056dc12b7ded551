"""The plans and reads of a source on a cluster, and its reports of lost data; without Spark."""

import re
import time
from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.client.process_clusters import MAX_CLUSTERS, close_clusters, cluster_of
from ottla.pipeline.source.batch_plan import NewPartitions, Piece, bind, plan_batch
from ottla.pipeline.source.data_loss import DataLossError, LossPolicy
from ottla.pipeline.source.log_ends import ends_after, resolve
from ottla.pipeline.source.range_rows import read_rows
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.source.stream_plan import plan_micro_batch
from ottla.pipeline.source.subscription import find_subscribed
from ottla.pipeline.words import OptionError
from tests.pipeline.topics import (
    add_partitions,
    delete_records,
    delete_topic,
    fill,
    fill_in_transactions,
    make_topic,
    settings_for,
)

pytestmark = pytest.mark.slow

TEN = [b"%d" % index for index in range(10)]
# Retention would delete older records.
NOW_MS = time.time_ns() // 1_000_000 - 3_600_000


class Source:
    """A source with options, used as Spark's readers use it; `__` stands for a dot."""

    def __init__(self, bootstrap: str, mode: Mode, **given: str) -> None:
        options = {name.replace("__", "."): value for name, value in given.items()}
        least = {
            "kafka.bootstrap.servers": bootstrap,
            "kafka.retry.backoff.ms": "10",
            "fetchOffset.retryIntervalMs": "10",
        }
        self.options = SourceOptions.from_options({**least, **options}, mode)
        self.cluster: Cluster = cluster_of(self.options.client)
        self.warnings: list[str] = []
        self.policy = LossPolicy(fails=self.options.fail_on_data_loss, warn=self.warnings.append)

    def batch(self) -> list[OffsetRange]:
        return self.bound(self.plan())

    def plan(self) -> list[tuple[Piece | NewPartitions, ...]]:
        return plan_batch(self.cluster, self.options, self.policy)

    def bound(self, tasks: Sequence[tuple[Piece | NewPartitions, ...]]) -> list[OffsetRange]:
        parts = [part for parts in tasks for part in parts]
        found = [one for part in parts for one in bind(self.cluster, self.options, part, self.policy)]
        return [one for one in found if one.start < one.end]

    def begin(self) -> SourceOffsets:
        subscribed = find_subscribed(self.cluster, self.options.subscription)
        subscribed.check()
        return resolve(self.cluster, subscribed, self.options.start, self.options.start_name, self.options)

    def ends(self, read: SourceOffsets) -> SourceOffsets:
        ends, losses = ends_after(self.cluster, self.options, read, lambda _ms: None)
        self.policy.report(losses)
        return ends

    def micro_batch(self, start: SourceOffsets, end: SourceOffsets) -> list[OffsetRange]:
        return plan_micro_batch(self.cluster, self.options, start, end, self.policy)

    def values(self, ranges: Sequence[OffsetRange]) -> list[int]:
        return [
            int(value)
            for one in ranges
            for batch in read_rows(
                self.cluster, one, ("value",), self.policy, self.options.where.timestamps_ms
            )
            for value in batch.column("value").to_pylist()
        ]


def places(ranges: Sequence[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(str(one.partition), one.start, one.end) for one in ranges]


def stream(bootstrap: str, **given: str) -> Source:
    return Source(bootstrap, Mode.STREAM, **given)


def batch(bootstrap: str, **given: str) -> Source:
    return Source(bootstrap, Mode.BATCH, **given)


@pytest.fixture(autouse=True)
def connections_are_closed() -> Iterator[None]:
    """Close the connections of this process after the test."""
    yield
    close_clusters()


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Make two partitions: ten records a millisecond apart, and five from a second later on."""
    name = make_topic(bootstrap, partitions=2)
    fill(bootstrap, name, TEN, partition=0, timestamp_ms=NOW_MS)
    fill(bootstrap, name, TEN[:5], partition=1, timestamp_ms=NOW_MS + 1_000)
    return name


# ---- subscriptions ------------------------------------------------------------------------------


def test_a_pattern_is_searched_in_names_as_the_connector_does(bootstrap: str) -> None:
    mark = uuid4().hex
    for name in (f"a-{mark}-b", f"{mark}-c", f"c-{mark}"):
        make_topic(bootstrap, name=name)

    anywhere = stream(bootstrap, subscribePattern=mark).begin()
    at_the_end = stream(bootstrap, subscribePattern=f"{mark}$").begin()

    assert {partition.topic for partition in anywhere.offsets} == {f"a-{mark}-b", f"{mark}-c", f"c-{mark}"}
    assert {partition.topic for partition in at_the_end.offsets} == {f"c-{mark}"}


def test_a_pattern_without_a_topic_reads_nothing(bootstrap: str) -> None:
    source = stream(bootstrap, subscribePattern=uuid4().hex)

    begun = source.begin()

    assert begun.to_json() == {}
    assert source.micro_batch(begun, source.ends(begun)) == []
    assert batch(bootstrap, subscribePattern=uuid4().hex).batch() == []


def test_assigned_partitions_alone_are_read(bootstrap: str, topic: str) -> None:
    source = batch(bootstrap, assign=f'{{"{topic}": [1]}}')

    assert places(source.batch()) == [(f"{topic}-1", 0, 5)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"subscribe": "TOPIC,nobody-has-it"},
            "subscribe: names topics or partitions that do not exist: topic nobody-has-it",
        ),
        (
            {"assign": '{"TOPIC": [0, 7]}'},
            "assign: names topics or partitions that do not exist: partition TOPIC-7",
        ),
    ],
)
def test_missing_topics_and_partitions_are_rejected(
    bootstrap: str, topic: str, given: dict[str, str], message: str
) -> None:
    options = {name: value.replace("TOPIC", topic) for name, value in given.items()}
    with pytest.raises(OptionError, match=re.escape(message.replace("TOPIC", topic))):
        batch(bootstrap, **options).batch()
    with pytest.raises(OptionError, match=re.escape(message.replace("TOPIC", topic))):
        stream(bootstrap, **options).begin()


# ---- the beginning and the end of a batch ---------------------------------------------------------


def test_a_plan_is_bound_again_whenever_its_tasks_run(bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, TEN, partition=0)
    source = batch(bootstrap, subscribe=topic, minPartitions="3")
    tasks = source.plan()
    assert places(source.bound(tasks)) == [(f"{topic}-0", 0, 3), (f"{topic}-0", 3, 6), (f"{topic}-0", 6, 10)]

    fill(bootstrap, topic, TEN, partition=0)
    fill(bootstrap, topic, TEN, partition=1)
    delete_records(bootstrap, topic, 4)
    add_partitions(bootstrap, topic, 3)
    fill(bootstrap, topic, TEN[:1], partition=2)

    assert len(tasks) == 4
    assert places(source.bound(tasks)) == [
        (f"{topic}-0", 4, 6),
        (f"{topic}-0", 6, 20),
        (f"{topic}-1", 0, 10),
        (f"{topic}-2", 0, 1),
    ]

    delete_topic(bootstrap, topic)
    with pytest.raises(OptionError, match="do not exist"):
        source.bound(tasks)


def test_a_task_reads_to_the_end_that_it_found_when_it_began(bootstrap: str, topic: str) -> None:
    source = batch(bootstrap, subscribe=topic)
    planned = source.batch()
    fill(bootstrap, topic, TEN)

    assert places(planned) == [(f"{topic}-0", 0, 10), (f"{topic}-1", 0, 5)]
    assert sorted(source.values(planned)) == sorted([*range(10), *range(5)])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": '{"T": {"0": 3, "1": -2}}'}, [(3, 10), (0, 5)]),
        ({"endingOffsets": '{"T": {"0": 3, "1": -1}}'}, [(0, 3), (0, 5)]),
        ({"startingOffsets": '{"T": {"0": 10, "1": 4}}'}, [None, (4, 5)]),
        ({"startingOffsets": '{"T": "earliest"}', "endingOffsets": '{"T": "latest"}'}, [(0, 10), (0, 5)]),
        (
            {"startingOffsets": '{"T": "earliest"}', "endingOffsets": '{"T": {"0": 3, "1": 2}}'},
            [(0, 3), (0, 2)],
        ),
        ({"startingTimestamp": "+4"}, [(4, 10), (0, 5)]),
        ({"endingTimestamp": "+1001"}, [(0, 10), (0, 1)]),
        ({"startingTimestamp": "+4", "endingTimestamp": "+6"}, [(4, 6), None]),
        ({"startingOffsetsByTimestamp": '{"T": {"0": +9, "1": +1003}}'}, [(9, 10), (3, 5)]),
        ({"endingOffsetsByTimestamp": '{"T": {"0": +9, "1": +1003}}'}, [(0, 9), (0, 3)]),
        (
            {"startingTimestamp": "+1002", "startingOffsetsByTimestampStrategy": "latest"},
            [None, (2, 5)],
        ),
        ({"minPartitions": "3"}, [(0, 5), (5, 10), (0, 5)]),
    ],
)
def test_a_batch_begins_and_ends_where_its_options_say(
    bootstrap: str, topic: str, given: dict[str, str], expected: list[tuple[int, int] | None]
) -> None:
    def fill_in(text: str) -> str:
        text = text.replace("T", topic) if text.startswith("{") else text
        return re.sub(r"\+([0-9]+)", lambda found: str(NOW_MS + int(found[1])), text)

    options = {name: fill_in(value) for name, value in given.items()}

    planned = places(batch(bootstrap, subscribe=topic, **options).batch())

    if len(expected) == 2:
        named = zip((f"{topic}-0", f"{topic}-1"), expected, strict=True)
        assert planned == [(name, *ends) for name, ends in named if ends is not None]
    else:
        assert [(start, end) for _, start, end in planned] == expected


# ---- the option `where` ---------------------------------------------------------------------------


def test_the_last_records_of_a_long_log_are_read_without_the_others(bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, [b"%d" % index for index in range(5_000)])
    source = batch(bootstrap, subscribe=topic, where="offset >= 4990")

    planned = source.batch()

    assert places(planned) == [(f"{topic}-0", 4_990, 5_000)]
    assert source.values(planned) == [*range(4_990, 5_000)]
    shared = batch(bootstrap, subscribe=topic, where="offset >= 4000", minPartitions="4").batch()
    assert [(start, end) for _, start, end in places(shared)] == [
        (4_000, 4_250),
        (4_250, 4_500),
        (4_500, 4_750),
        (4_750, 5_000),
    ]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("partition = 1", [(1, 0, 5)]),
        ("partition <> 1 AND offset IN (2, 3, 7, 11)", [(0, 2, 4), (0, 7, 8)]),
        ("topic = 'T' AND offset BETWEEN 3 AND 6", [(0, 3, 7), (1, 3, 5)]),
        ("topic <> 'T'", []),
        ("timestamp >= +1002", [(1, 2, 5)]),
        ("timestamp > +4 AND timestamp < +8", [(0, 5, 10), (1, 0, 5)]),  # a log does not know an upper end
        ("timestamp >= +7 AND offset < 8", [(0, 7, 8), (1, 0, 5)]),
        ("timestamp > +2000", []),
    ],
)
def test_a_batch_has_the_ranges_in_which_wanted_records_may_lie(
    bootstrap: str, topic: str, where: str, expected: list[tuple[int, int, int]]
) -> None:
    text = re.sub(r"\+([0-9]+)", lambda found: str(NOW_MS + int(found[1])), where.replace("T'", f"{topic}'"))

    for more in ({}, {"minPartitions": "5"}, {"maxRecordsPerPartition": "2"}):
        bound = batch(bootstrap, subscribe=topic, where=text, **more).batch()

        joined: list[tuple[int, int, int]] = []
        for one in bound:
            before = joined[-1] if joined else None
            if before is not None and before[::2] == (one.partition.partition, one.start):
                joined[-1] = before[0], before[1], one.end
            else:
                joined.append((one.partition.partition, one.start, one.end))
        assert joined == expected


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_unordered_timestamps_lose_no_record(bootstrap: str, isolation: str) -> None:
    topic = make_topic(bootstrap)
    for index, begin_ms in enumerate((100, 50, 400, 0, 200)):
        values = [b"%d" % (10 * index + number) for number in range(10)]
        fill(bootstrap, topic, values, timestamp_ms=NOW_MS + begin_ms)
    fill_in_transactions(bootstrap, topic, [True, False])
    times = {
        10 * index + n: begin + n for index, begin in enumerate((100, 50, 400, 0, 200)) for n in range(10)
    }

    for first_ms, last_ms in ((0, 999), (55, 105), (405, 999), (410, 999), (5, 54), (203, 203), (60, 99)):
        source = batch(
            bootstrap,
            subscribe=topic,
            kafka__isolation__level=isolation,
            where=f"timestamp BETWEEN {NOW_MS + first_ms} AND {NOW_MS + last_ms}",
        )
        assert source.values(source.batch()) == [
            value for value, ms in times.items() if first_ms <= ms <= last_ms
        ]
    latest = batch(
        bootstrap,
        subscribe=topic,
        kafka__isolation__level=isolation,
        where=f"timestamp >= {NOW_MS + 1000}",
    )
    assert latest.values(latest.batch()) == ([0] if isolation == "read_committed" else [0, 1])


def test_offsets_in_json_name_all_partitions_also_those_that_a_filter_leaves_out(
    bootstrap: str, topic: str
) -> None:
    whole, part = (f'{{"{topic}": {{{offsets}}}}}' for offsets in ('"0": 2, "1": 1', '"1": 1'))

    found = batch(bootstrap, subscribe=topic, startingOffsets=whole, where="partition = 1").batch()

    assert places(found) == [(f"{topic}-1", 1, 5)]
    with pytest.raises(OptionError, match=f"startingOffsets: does not name {topic}-0"):
        batch(bootstrap, subscribe=topic, startingOffsets=part, where="partition = 1").batch()


def test_a_partition_that_is_left_out_is_not_checked_for_losses(bootstrap: str, topic: str) -> None:
    delete_records(bootstrap, topic, 4)
    given = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 1, "1": 1}}}}'}

    assert places(batch(bootstrap, **given, where="partition = 1").batch()) == [(f"{topic}-1", 1, 5)]
    with pytest.raises(DataLossError, match="startingOffsets is 1"):
        batch(bootstrap, **given, where="offset >= 6").batch()


def test_later_partitions_are_filtered_as_well(bootstrap: str, topic: str) -> None:
    source = batch(bootstrap, subscribe=topic, where="partition IN (1, 3) AND offset < 2")
    planned = source.plan()
    add_partitions(bootstrap, topic, 4)
    for number in (2, 3):
        fill(bootstrap, topic, TEN, partition=number)

    assert places(source.bound(planned)) == [(f"{topic}-1", 0, 2), (f"{topic}-3", 0, 2)]


def test_a_moment_after_the_last_record_is_rejected_by_name(bootstrap: str, topic: str) -> None:
    source = batch(bootstrap, subscribe=topic, startingTimestamp=str(NOW_MS + 500))

    with pytest.raises(OptionError, match=f"startingTimestamp: {topic}-0 has no record at or after"):
        source.batch()


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ('{"TOPIC": {"0": 1}}', "does not name TOPIC-1; name all partitions"),
        ('{"TOPIC": {"0": 1, "1": 1, "2": 1}}', "names TOPIC-2, which this query does not read"),
        ('{"TOPIC": "latest", "TOPICx": "latest"}', "names topic TOPICx, which this query does not read"),
        (
            '{"TOPIC": {"0": 1, "1": 1, "id": "AAAAAAAAAAAAAAAAAAAAAQ"}}',
            "is of a topic TOPIC that was deleted and created again",
        ),
    ],
)
def test_offsets_that_do_not_fit_the_partitions_are_rejected(
    bootstrap: str, topic: str, offsets: str, message: str
) -> None:
    source = stream(bootstrap, subscribe=topic, startingOffsets=offsets.replace("TOPIC", topic))

    with pytest.raises(OptionError, match="startingOffsets: " + message.replace("TOPIC", topic)):
        source.begin()


def test_offsets_that_the_log_does_not_have_are_a_loss(bootstrap: str, topic: str) -> None:
    delete_records(bootstrap, topic, 4)
    given = {
        "startingOffsets": f'{{"{topic}": {{"0": 2, "1": 2}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": 6, "1": 9}}}}',
    }

    with pytest.raises(DataLossError) as raised:
        batch(bootstrap, subscribe=topic, **given).batch()
    lenient = batch(bootstrap, subscribe=topic, failOnDataLoss="false", **given)

    assert raised.value.losses == (
        f"{topic}-0 has offsets 4 to 10, but startingOffsets is 2",
        f"{topic}-1 has offsets 0 to 5, but endingOffsets is 9",
    )
    assert places(lenient.batch()) == [(f"{topic}-0", 4, 6), (f"{topic}-1", 2, 5)]
    assert len(set(lenient.warnings)) == 2  # the plan and the task each report them


# ---- changes under a stream -----------------------------------------------------------------------


def test_new_partitions_and_topics_are_read_from_their_beginning(bootstrap: str) -> None:
    mark = uuid4().hex
    first = make_topic(bootstrap, name=f"{mark}-1")
    source = stream(bootstrap, subscribePattern=mark, startingOffsets="latest")
    begun = source.begin()
    add_partitions(bootstrap, first, 2)
    second = make_topic(bootstrap, name=f"{mark}-2")
    fill(bootstrap, first, TEN[:2], partition=1)
    fill(bootstrap, second, TEN[:3])

    planned = source.micro_batch(begun, source.ends(begun))

    assert places(planned) == [(f"{first}-1", 0, 2), (f"{second}-0", 0, 3)]
    assert source.values(planned) == [0, 1, 0, 1, 2]


def test_a_topic_created_again_stops_a_stream_or_is_read_from_its_beginning(
    bootstrap: str, topic: str
) -> None:
    strict = stream(bootstrap, subscribe=topic, startingOffsets="earliest")
    lenient = stream(bootstrap, subscribe=topic, failOnDataLoss="false")
    begun = strict.begin()
    read = strict.ends(begun)
    planned = strict.micro_batch(begun, read)
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic)
    # More than the topic before had: by offsets alone it would look like the old topic.
    fill(bootstrap, topic, TEN * 2)

    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        strict.ends(read)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        strict.values(planned)
    ends = lenient.ends(read)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        strict.micro_batch(read, ends)  # one that was begun while the query was allowed to lose rows

    assert places(lenient.micro_batch(read, ends)) == [(f"{topic}-0", 0, 20)]
    assert len(lenient.values(lenient.micro_batch(read, ends))) == 20
    assert lenient.values(planned) == []


def test_a_restored_topic_continues_where_it_was_read_to_if_its_new_id_is_accepted(
    bootstrap: str, topic: str
) -> None:
    strict = stream(bootstrap, subscribe=topic, startingOffsets="earliest")
    read = strict.ends(strict.begin())
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic, partitions=2)
    fill(bootstrap, topic, TEN * 2, partition=0)
    fill(bootstrap, topic, TEN[:5], partition=1)
    accepting = stream(bootstrap, subscribe=topic, acceptNewTopicIds="true")

    known = accepting.options.as_known(read)
    ends = accepting.ends(known)

    assert places(accepting.micro_batch(known, ends)) == [(f"{topic}-0", 10, 20)]
    # Offsets written now have the new id, and are read without the option as well.
    assert strict.micro_batch(ends, strict.ends(ends)) == []


def test_a_process_that_knew_the_topic_before_reads_the_new_one(bootstrap: str, topic: str) -> None:
    source = batch(bootstrap, subscribe=topic)
    assert len(source.values(source.batch())) == 15
    worker = Cluster(source.options.client)
    worker.topic(topic)
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic)
    fill(bootstrap, topic, TEN)

    planned = source.batch()
    source.cluster = worker

    assert source.values(planned) == list(range(10))
    worker.close()


def test_a_deleted_topic_stops_a_stream_or_is_left_out(bootstrap: str, topic: str) -> None:
    strict = stream(bootstrap, subscribe=topic, startingOffsets="earliest")
    lenient = stream(bootstrap, subscribe=topic, failOnDataLoss="false")
    read = strict.ends(strict.begin())
    delete_topic(bootstrap, topic)

    with pytest.raises(
        DataLossError, match=f"{topic}-0 no longer exists; everything before offset 10 was read"
    ):
        strict.ends(read)

    # With an empty checkpoint it would be read from its beginning when it is back (SPARK-41375).
    assert lenient.ends(read).to_json() == read.to_json()
    assert len(lenient.warnings) == 2
    assert lenient.micro_batch(read, lenient.ends(read)) == []


def test_records_deleted_before_they_were_read_stop_a_stream_or_are_skipped(
    bootstrap: str, topic: str
) -> None:
    strict = stream(bootstrap, subscribe=topic, startingOffsets="earliest")
    lenient = stream(bootstrap, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    begun = strict.begin()
    planned = strict.micro_batch(begun, strict.ends(begun))
    delete_records(bootstrap, topic, 7)

    with pytest.raises(DataLossError, match=f"{topic}-0 has offsets 7 to 10, but not 0"):
        strict.values(planned)

    assert lenient.values(planned) == [7, 8, 9, 0, 1, 2, 3, 4]
    assert lenient.warnings == [
        "rows are lost, but the query continues, because failOnDataLoss is false:"
        f" {topic}-0 has offsets 7 to 10, but not 0"
    ]


def test_an_added_partition_whose_first_records_are_gone_is_a_loss(bootstrap: str, topic: str) -> None:
    strict = stream(bootstrap, subscribe=topic, startingOffsets="latest")
    begun = strict.begin()
    add_partitions(bootstrap, topic, 3)
    fill(bootstrap, topic, TEN, partition=2)
    delete_records(bootstrap, topic, 4, partition=2)

    with pytest.raises(DataLossError, match=f"{topic}-2 was added, but begins at offset 4"):
        strict.micro_batch(begun, strict.ends(begun))


def test_offsets_beyond_the_end_of_a_log_are_a_loss(bootstrap: str, topic: str) -> None:
    offsets = f'{{"{topic}": {{"0": 99, "1": 0}}}}'
    strict = stream(bootstrap, subscribe=topic, startingOffsets=offsets)
    lenient = stream(bootstrap, subscribe=topic, startingOffsets=offsets, failOnDataLoss="false")
    begun = strict.begin()

    with pytest.raises(
        DataLossError, match=f"{topic}-0 ends at offset 10, but everything before offset 99 was already read"
    ):
        strict.ends(begun)
    ends = lenient.ends(begun)

    # The log continues from its present end.
    assert places(lenient.micro_batch(begun, ends)) == [(f"{topic}-1", 0, 5)]
    assert ends.offsets[TopicPartition(topic, 0)] == 10


def test_a_reader_of_committed_records_ends_at_the_last_stable_offset(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    fill_in_transactions(bootstrap, topic, [True, False, True])
    given = {"subscribe": topic, "startingOffsets": "earliest"}
    committed = stream(bootstrap, **given, kafka__isolation__level="read_committed")
    begun = committed.begin()
    while (ends := committed.ends(begun)).offsets[TopicPartition(topic, 0)] < 6:
        time.sleep(0.01)

    assert committed.values(committed.micro_batch(begun, ends)) == [0, 2]
    uncommitted = stream(bootstrap, **given)
    assert uncommitted.values(uncommitted.micro_batch(begun, uncommitted.ends(begun))) == [0, 1, 2]


# ---- the clusters of a process --------------------------------------------------------------------


def test_a_process_keeps_a_few_clusters(bootstrap: str) -> None:
    first = settings_for(bootstrap, client_id="first")
    cluster = cluster_of(first)

    assert cluster_of(settings_for(bootstrap, client_id="first")) is cluster
    for number in range(MAX_CLUSTERS):
        cluster_of(settings_for(bootstrap, client_id=str(number)))
    assert cluster_of(first) is not cluster
