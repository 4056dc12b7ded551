"""The calls of a query's driver to its source, in Spark's order; without Spark."""

import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_offsets import committed_offsets
from ottla.pipeline.client.process_clusters import close_clusters
from ottla.pipeline.source.data_loss import DataLossError
from ottla.pipeline.spark import stream_reader
from ottla.pipeline.spark.range_partition import RangePartition
from ottla.pipeline.spark.stream_reader import StreamReader
from ottla.pipeline.words import OptionError
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import TIMEOUT_S, add_partitions, delete_topic, fill, make_topic

pytestmark = pytest.mark.slow

TEN = [b"%d" % index for index in range(10)]


@pytest.fixture(autouse=True)
def connections_are_closed() -> Iterator[None]:
    yield
    close_clusters()


def reader(bootstrap: str, **given: str) -> StreamReader:
    """Return a reader of values; `__` stands for a dot."""
    options = {name.replace("__", "."): value for name, value in given.items()}
    quick = {"kafka.retry.backoff.ms": "10", "fetchOffset.retryIntervalMs": "10"}
    return StreamReader(
        {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **quick, **options}, ("value",)
    )


def offsets_of(written: dict[str, Any], topic: str) -> dict[str, int]:
    return {name: offset for name, offset in written[topic].items() if name != "id"}


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Make ten records in the first of two partitions."""
    name = make_topic(bootstrap, partitions=2)
    fill(bootstrap, name, TEN)
    return name


def test_limits_are_those_of_the_options(bootstrap: str) -> None:
    assert reader(bootstrap, subscribe="t").getDefaultReadLimit() == ReadAllAvailable()
    assert reader(bootstrap, subscribe="t", maxOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(bootstrap, subscribe="t", minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)
    both = reader(bootstrap, subscribe="t", minOffsetsPerTrigger="5", maxOffsetsPerTrigger="6")
    assert both.getDefaultReadLimit() == ReadMaxRows(6)


def test_a_batch_is_limited_planned_and_read(bootstrap: str, topic: str) -> None:
    driver = reader(bootstrap, subscribe=topic)
    start = driver.initialOffset()

    end = driver.latestOffset(start, ReadMaxRows(4))
    planned = driver.partitions(start, end)

    assert offsets_of(start, topic) == {"0": 0, "1": 0}
    assert offsets_of(end, topic) == {"0": 4, "1": 0}
    assert offsets_of(driver.reportLatestOffset() or {}, topic) == {"0": 10, "1": 0}
    assert driver.partitions(start, json.loads(json.dumps(end))) is planned  # Spark asks again
    values = [value for one in planned for batch in driver.read(one) for value in batch[0].to_pylist()]
    assert values == TEN[:4]
    assert driver.partitions(end, end) == []


def test_a_query_that_begins_at_the_ends_has_a_first_batch_without_rows(bootstrap: str, topic: str) -> None:
    """The checkpoint has the end of the batch; Spark asks for its start again when the batch runs again."""
    driver = reader(bootstrap, subscribe=topic, startingOffsets="latest")
    start = driver.initialOffset()
    fill(bootstrap, topic, TEN[:2])

    assert driver.initialOffset() == start  # Spark asks twice
    first = driver.latestOffset(start, ReadAllAvailable())
    assert first == start
    assert driver.partitions(start, first) == []
    second = driver.latestOffset(first, ReadAllAvailable())
    (one,) = driver.partitions(first, second)
    assert isinstance(one, RangePartition)
    assert (one.split.start, one.split.end) == (10, 12)


def test_a_first_batch_that_runs_again_ends_where_it_ended(bootstrap: str, topic: str) -> None:
    first = reader(bootstrap, subscribe=topic, startingOffsets="latest").initialOffset()
    fill(bootstrap, topic, TEN[:2])
    add_partitions(bootstrap, topic, 3)
    driver = reader(bootstrap, subscribe=topic, startingOffsets="latest")

    assert driver.partitions(driver.initialOffset(), first) == []
    (one,) = driver.partitions(first, driver.latestOffset(first, ReadAllAvailable()))
    assert isinstance(one, RangePartition)
    assert (one.split.start, one.split.end) == (10, 12)


def test_a_loss_stops_a_query_before_its_next_batch_is_begun(bootstrap: str, topic: str) -> None:
    """A batch that has begun is in the checkpoint, with the new topic in it."""
    driver = reader(bootstrap, subscribe=topic)
    read = driver.latestOffset(driver.initialOffset(), ReadAllAvailable())
    delete_topic(bootstrap, topic)

    with pytest.raises(DataLossError, match=f"{topic}-0 no longer exists"):
        driver.latestOffset(read, ReadAllAvailable())


def test_spark_may_ask_for_everything_despite_the_options(bootstrap: str, topic: str) -> None:
    driver = reader(bootstrap, subscribe=topic, maxOffsetsPerTrigger="2", minOffsetsPerTrigger="1")

    end = driver.latestOffset(driver.initialOffset(), ReadAllAvailable())

    assert offsets_of(end, topic) == {"0": 10, "1": 0}


def test_a_batch_waits_for_the_minimum_but_not_for_ever(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = 0
    monkeypatch.setattr(stream_reader, "monotonic_ms", lambda: now_ms)
    driver = reader(bootstrap, subscribe=topic, minOffsetsPerTrigger="5", maxTriggerDelay="1s")
    limit = driver.getDefaultReadLimit()
    first = driver.latestOffset(driver.initialOffset(), limit)
    fill(bootstrap, topic, TEN[:4])

    assert offsets_of(first, topic) == {"0": 10, "1": 0}
    assert driver.latestOffset(first, limit) == first
    now_ms = 1_000
    assert offsets_of(driver.latestOffset(first, limit), topic) == {"0": 14, "1": 0}


def test_available_now_has_a_fixed_end_and_no_minimum(bootstrap: str, topic: str) -> None:
    driver = reader(bootstrap, subscribe=topic, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    driver.prepareForTriggerAvailableNow()
    limit = driver.getDefaultReadLimit()
    first = driver.latestOffset(driver.initialOffset(), limit)
    fill(bootstrap, topic, TEN)
    add_partitions(bootstrap, topic, 3)

    second = driver.latestOffset(first, limit)

    assert offsets_of(first, topic) == {"0": 6, "1": 0}
    assert offsets_of(second, topic) == {"0": 10, "1": 0}
    assert driver.latestOffset(second, limit) == second  # the end of the query


def test_offsets_are_committed_to_the_group_as_the_query_proceeds(
    bootstrap: str, client: MakeClient, topic: str
) -> None:
    group_id = uuid4().hex
    driver = reader(bootstrap, subscribe=topic, kafka__group__id=group_id)
    start = driver.initialOffset()
    end = driver.latestOffset(start, ReadMaxRows(4))

    def committed() -> dict[TopicPartition, int]:
        return {one: found.offset for one, found in committed_offsets(client(), group_id).items()}

    assert committed() == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    driver.commit(end)
    assert committed() == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}


def test_a_group_with_members_does_not_stop_a_query(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group_id = uuid4().hex
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": "earliest"})
    member.subscribe([topic])
    while not member.assignment():
        member.poll(TIMEOUT_S / 100)
    driver = reader(bootstrap, subscribe=topic, kafka__group__id=group_id)

    with caplog.at_level(logging.WARNING):
        end = driver.latestOffset(driver.initialOffset(), ReadAllAvailable())

    member.close()
    assert offsets_of(end, topic) == {"0": 10, "1": 0}
    assert f"offsets could not be committed to group {group_id}: UNKNOWN_MEMBER_ID" in caplog.text


def test_options_without_effect_are_named_in_the_log(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = reader(bootstrap, subscribe=topic, kafka__client__rack="a", maxTriggerDelay="1s")

    with caplog.at_level(logging.WARNING):
        driver.initialOffset()

    assert "kafka.client.rack has no effect: rows are fetched from leaders" in caplog.text
    assert "maxTriggerDelay has no effect" in caplog.text


def test_a_reader_is_pickled_for_tasks_without_its_connections(bootstrap: str, topic: str) -> None:
    driver = reader(bootstrap, subscribePattern=f"^{topic}$")
    start = driver.initialOffset()
    planned = driver.partitions(start, driver.latestOffset(start, ReadAllAvailable()))

    serializer = CloudPickleSerializer()
    copied, (split,) = serializer.loads(serializer.dumps((driver, planned)))

    assert isinstance(copied, DataSourceStreamReader)
    assert isinstance(split, RangePartition)
    assert [value for batch in copied.read(split) for value in batch[0].to_pylist()] == TEN


@pytest.mark.parametrize("offsets", [{"t": 5}, {"t": {"0": -1}}, {"t": {"0": "5"}}, {"../t": {"0": 5}}])
def test_an_invalid_checkpoint_is_rejected(bootstrap: str, offsets: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"^checkpoint: "):
        reader(bootstrap, subscribe="t").latestOffset(offsets, ReadAllAvailable())
