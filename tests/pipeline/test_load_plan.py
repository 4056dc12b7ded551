"""The records that a load has left to read from a cluster; without Spark."""

import time
from collections.abc import Iterator

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.process_clusters import close_clusters, cluster_of
from ottla.pipeline.lake.load_plan import LoadPlan, plan_load, steps
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.words import OptionError
from tests.pipeline.topics import delete_records, delete_topic, fill, make_topic

pytestmark = pytest.mark.slow

# Retention would delete older records.
NOW_MS = time.time_ns() // 1_000_000 - 3_600_000
NOTHING = SourceOffsets(offsets={})


@pytest.fixture(autouse=True)
def connections_are_closed() -> Iterator[None]:
    """Close the connections of this process after the test."""
    yield
    close_clusters()


def plan(bootstrap: str, topic: str, progress: SourceOffsets = NOTHING, **given: str) -> LoadPlan:
    options = SourceOptions.from_options(
        {"kafka.bootstrap.servers": bootstrap, "kafka.retry.backoff.ms": "10", "subscribe": topic, **given},
        Mode.BATCH,
    )
    policy = LossPolicy(fails=options.fail_on_data_loss, warn=lambda _sentence: None)
    return plan_load(cluster_of(options.client), options, progress, policy)


def test_a_loaded_partition_that_became_empty_does_not_stop_a_load_by_time(bootstrap: str) -> None:
    """Retention has deleted all records after the time at which the load begins."""
    topic = make_topic(bootstrap, partitions=2)
    emptied, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    for partition in (0, 1):
        fill(bootstrap, topic, [b"a", b"b", b"c"], partition=partition, timestamp_ms=NOW_MS)
    times = [
        {"startingTimestamp": str(NOW_MS + 1)},
        {"startingOffsetsByTimestamp": f'{{"{topic}": {{"0": {NOW_MS + 1}, "1": {NOW_MS + 1}}}}}'},
    ]

    first = plan(bootstrap, topic, **times[0])
    delete_records(bootstrap, topic, 3, partition=0)
    fill(bootstrap, topic, [b"d"], partition=1, timestamp_ms=NOW_MS + 9)

    assert first.start.offsets == {emptied: 1, other: 1}
    for options in times:
        again = plan(bootstrap, topic, first.end, **options)
        assert (again.start.offsets, again.end.offsets) == ({emptied: 3, other: 3}, {emptied: 3, other: 4})
    # Nothing of it was loaded, and no option gives its start.
    with pytest.raises(OptionError, match=f"startingTimestamp: {emptied} has no record at or after"):
        plan(bootstrap, topic, **times[0])


def test_nothing_counts_as_loaded_of_a_topic_created_again(bootstrap: str) -> None:
    """This includes its partitions without rows, which a later load reads."""
    topic = make_topic(bootstrap, partitions=2)
    for partition in (0, 1):
        fill(bootstrap, topic, [b"a", b"b", b"c"], partition=partition)
    loaded = plan(bootstrap, topic).end
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic, partitions=2)
    fill(bootstrap, topic, [b"d"], partition=0)

    [step] = steps(plan(bootstrap, topic, loaded, failOnDataLoss="false"), 100)

    assert step.progress.offsets == {TopicPartition(topic, 0): 1}
