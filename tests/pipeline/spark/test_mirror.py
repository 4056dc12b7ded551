"""Mirrors of one cluster in another: rows, topics, settings, groups, cycles, and a crash."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.pipeline.client.topic_admin import ConfigSource, alter_configs, create_partitions, describe_configs
from ottla.pipeline.mirror.group_follower import GroupState
from ottla.pipeline.mirror.mirror_job import MirrorJob
from ottla.pipeline.mirror.mirror_rounds import MirrorRounds
from ottla.pipeline.mirror.mirror_status import read_status
from ottla.pipeline.query import ProcessingTime
from tests.pipeline.spark.mirroring import (
    IDENTITY,
    Side,
    mirror,
    mirror_options,
    new_name,
    row_of,
    side_of,
    start,
    write_rows_of_all_kinds,
)
from tests.pipeline.spark.topic_rows import TIMEOUT_S, read_topic

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def a(bootstrap: str) -> Iterator[Side]:
    side = side_of("a", bootstrap)
    yield side
    side.client.close()


@pytest.fixture(scope="module")
def b() -> Iterator[Side]:
    with Nodes(nodes=1) as nodes:
        side = side_of("b", nodes.bootstrap)
        yield side
        side.client.close()


def test_rows_are_copied_partition_for_partition_and_topics_followed(
    spark: SparkSession, a: Side, b: Side, checkpoint: str
) -> None:
    name = new_name()
    # The default retention would delete rows of 2023 at once.
    topic = a.make(name, 3, {"retention.ms": "-1", "segment.bytes": "2000000"})
    a.make(f"b.{name}")  # this name says that it came from b
    write_rows_of_all_kinds(a, topic)
    options = mirror_options(a, b, name)

    job = mirror(spark, options, checkpoint)

    copied = [row_of(message) for message in read_topic(b.bootstrap, f"a.{name}")]
    assert copied == [row_of(message) for message in read_topic(a.bootstrap, topic)]
    assert len(copied) == 18
    assert b.topics(name) == {f"a.{name}"}
    status = job.status()
    assert status.rows == 18
    assert {*status.partitions} == {TopicPartition(topic, index) for index in range(3)}
    assert status.partitions == read_status(options).partitions
    assert status.lag == 0

    create_partitions(a.client, {topic: 4})
    alter_configs(
        a.client, {topic: {"retention.ms": "-1", "segment.bytes": None, "max.message.bytes": "99999"}}
    )
    a.make(f"{name}.more", 2)
    a.fill(topic, ["new partition"], partition=3)
    a.fill(f"{name}.more", ["new topic"], partition=1)
    mirror(spark, options, checkpoint)

    assert b.values(f"a.{name}")[-1] == "new partition"
    assert b.values(f"a.{name}.more") == ["new topic"]
    configs = describe_configs(b.client, [f"a.{name}"])[f"a.{name}"]
    assert {key: one.value for key, one in configs.items() if one.source is ConfigSource.TOPIC} == {
        "retention.ms": "-1",
        "max.message.bytes": "99999",
    }


def test_a_group_that_fails_over_reads_every_row_once(
    spark: SparkSession, a: Side, b: Side, checkpoint: str
) -> None:
    name = new_name()
    topic, group = a.make(name), f"g-{name}"
    a.fill(topic, [f"{number}" for number in range(20)])
    producer = Producer({"bootstrap.servers": a.bootstrap, "transactional.id": f"w-{name}"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for _ in range(7):
        producer.produce(topic, b"aborted")
    producer.flush(TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)
    a.fill(topic, [f"{number}" for number in range(20, 40)])
    options = mirror_options(a, b, name, maxOffsetsPerTrigger="30")

    read_in_a = a.consume(group, topic, 27, begin="earliest")
    job = mirror(spark, options, checkpoint)
    read_in_b = b.consume(group, f"a.{name}", 40)

    assert read_in_a == [f"{number}" for number in range(27)]
    assert read_in_b == [f"{number}" for number in range(27, 40)]
    (synced,) = job.status().rounds.groups
    assert (synced.group_id, synced.state) == (group, GroupState.SYNCED)


@pytest.mark.parametrize("policy", ["default", "identity"])
def test_two_mirrors_of_a_topic_send_nothing_in_cycles(
    spark: SparkSession, a: Side, b: Side, checkpoint: str, policy: str
) -> None:
    name = new_name()
    given = IDENTITY if policy == "identity" else {}
    there = mirror_options(a, b, name, **given)
    back = mirror_options(b, a, name, **given)
    for side in (a, b):
        side.make(name)
        side.fill(name, [f"from {side.alias}"], headers=[("own", b"1")])

    mirror(spark, there, f"{checkpoint}/there")
    mirror(spark, back, f"{checkpoint}/back")
    mirror(spark, there, f"{checkpoint}/there")

    if policy == "default":
        assert (a.topics(name), b.topics(name)) == ({name, f"b.{name}"}, {name, f"a.{name}"})
        assert (a.values(f"b.{name}"), b.values(f"a.{name}")) == (["from b"], ["from a"])
    else:
        assert (a.topics(name), b.topics(name)) == ({name}, {name})
        assert (a.values(name), b.values(name)) == (["from a", "from b"], ["from b", "from a"])
        marked = read_topic(b.bootstrap, name)[-1].headers()
        assert marked == [("own", b"1"), ("mirror-provenance", b"a")]


def test_a_batch_that_fails_behind_its_rows_is_not_written_again(
    spark: SparkSession, a: Side, b: Side, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()
    topic = a.make(name, 2)
    for partition in range(2):
        a.fill(topic, [f"{partition}.{number}" for number in range(50)], partition=partition)
    options = mirror_options(a, b, name)
    run_groups = MirrorRounds.run_groups

    def fail(_rounds: MirrorRounds) -> None:
        raise RuntimeError("the driver ends here")

    monkeypatch.setattr(MirrorRounds, "run_groups", fail)
    with pytest.raises(StreamingQueryException, match="the driver ends here"):
        mirror(spark, options, checkpoint)
    written = b.values(f"a.{name}")
    monkeypatch.setattr(MirrorRounds, "run_groups", run_groups)
    a.fill(topic, ["last"], partition=1)
    mirror(spark, options, checkpoint)

    assert len(written) == 100
    assert b.values(f"a.{name}") == [*written, "last"]


def test_a_topic_that_is_deleted_in_the_target_meanwhile_is_made_again(
    spark: SparkSession, a: Side, b: Side, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name()
    a.make(name)
    a.fill(name, ["one"])
    save, deleted = MirrorJob._save, []

    def delete_before_it(job: MirrorJob, batch: DataFrame) -> None:
        if not deleted:
            deleted.append(b.delete(f"a.{name}"))
        save(job, batch)

    monkeypatch.setattr(MirrorJob, "_save", delete_before_it)
    mirror(spark, mirror_options(a, b, name), checkpoint)

    assert deleted
    assert b.values(f"a.{name}") == ["one"]


def test_a_running_mirror_copies_changes(spark: SparkSession, a: Side, b: Side, checkpoint: str) -> None:
    name = new_name()
    a.make(name)
    job = start(spark, mirror_options(a, b, name), checkpoint, ProcessingTime())

    a.fill(name, ["one"])
    job.query.processAllAvailable()
    a.make(f"{name}.more")
    a.fill(f"{name}.more", ["two"])
    while not b.topics(f"{name}.more"):
        job.query.processAllAvailable()
    job.query.processAllAvailable()
    status = job.status()
    job.query.stop()  # as job files do, which know nothing else of it
    assert job._thread is not None
    job._thread.join()

    assert not any(cluster.connections._open for cluster in (job._source, job._target))
    assert (b.values(f"a.{name}"), b.values(f"a.{name}.more")) == (["one"], ["two"])
    assert (status.lag, status.rows) == (0, 2)
    assert status.rounds.problems == {}
    assert status.rounds.topics_followed_ms > 0
    assert not job.query.isActive
