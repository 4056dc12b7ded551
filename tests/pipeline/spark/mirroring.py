"""Mirrors between two clusters: options, runs, and the content of topics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.topic_admin import NewTopic, create_topics
from ottla.pipeline.mirror.mirror_job import MirrorJob, run
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.query import AvailableNow, QuerySettings, Trigger
from tests.pipeline.spark.topic_rows import TIMEOUT_S, read_topic
from tests.pipeline.topics import settings_for

MOMENT_MS = 1_700_000_000_000
QUERY_TIMEOUT_S = 300  # on a busy machine
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two clusters."""

    alias: str
    bootstrap: str
    client: Cluster

    def make(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic."""
        made = create_topics(
            self.client, [NewTopic(name=topic, partitions_count=partitions, configs=configs or {})]
        )
        assert made == {topic: None}
        return topic

    def delete(self, topic: str) -> str:
        """Delete a topic, and wait until the cluster no longer lists it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for deleted in admin.delete_topics([topic]).values():
            deleted.result(TIMEOUT_S)
        while self.topics(topic):
            time.sleep(0.05)
        return topic

    def fill(self, topic: str, values: list[str], *, partition: int = 0, **more: Any) -> None:
        """Write rows with these values."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(topic, value=value.encode(), partition=partition, **more)
        assert producer.flush(TIMEOUT_S) == 0

    def values(self, topic: str) -> list[str]:
        """Return all committed values, partition by partition in order."""
        return [(message.value() or b"").decode() for message in read_topic(self.bootstrap, topic)]

    def topics(self, name: str) -> set[str]:
        """Return all topics whose names contain `name`."""
        listed = Producer({"bootstrap.servers": self.bootstrap}).list_topics(timeout=TIMEOUT_S)
        return {topic for topic in listed.topics if name in topic}

    def consume(self, group: str, topic: str, count: int, *, begin: str = "latest") -> list[str]:
        """Read up to `count` rows as a member of a group, or to the end; commit them and leave.

        A group without an offset begins at `begin`: at "latest" it would read nothing.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": begin,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([topic])
        found: list[Message] = []
        while len(found) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing came"
            if message.error() is None:
                found.append(message)
            elif message.error().name() == "_PARTITION_EOF":
                break
        if found:
            consumer.commit(asynchronous=False)
        consumer.close()
        return [(message.value() or b"").decode() for message in found]


def side_of(alias: str, bootstrap: str) -> Side:
    """Return a cluster by its address."""
    return Side(alias=alias, bootstrap=bootstrap, client=Cluster(settings_for(bootstrap, Role.SOURCE)))


def row_of(message: Message) -> tuple[Any, ...]:
    """Return all parts of a record that a mirror keeps."""
    return message.partition(), message.key(), message.value(), message.headers(), message.timestamp()[1]


def write_rows_of_all_kinds(side: Side, topic: str) -> None:
    """Write rows of 2023: 18 in two committed transactions, and others in an aborted one between them."""
    producer = Producer({"bootstrap.servers": side.bootstrap, "transactional.id": f"w-{topic}"})
    producer.init_transactions(TIMEOUT_S)
    for commit in (True, False, True):
        producer.begin_transaction()
        for number in range(9):
            producer.produce(
                topic,
                partition=number % 3,
                key=None if number == 0 else b"k%d" % (number % 4),
                value=None if number == 5 else b"%s %d" % (str(commit).encode(), number),
                headers=[("h", b"1"), ("h", None)] if number % 2 else None,
                timestamp=MOMENT_MS + number,
            )
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)


def new_name() -> str:
    """Return a name that no other topic's name contains."""
    return f"t{uuid4().hex}"


def mirror_options(source: Side, target: Side, name: str, **given: str) -> MirrorOptions:
    """Return the options of a mirror of the topics and groups whose names contain `name`."""
    return MirrorOptions.from_options(
        {
            "source.cluster.alias": source.alias,
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.alias": target.alias,
            "target.cluster.bootstrap.servers": target.bootstrap,
            "topics": f".*{name}.*",
            "groups": f".*{name}.*",
            "transactional.id": f"{source.alias}-{target.alias}-{name}",
            "progress.group.id": f"progress-{source.alias}-{target.alias}-{name[:8]}",
        }
        | {option.replace("_", "."): text for option, text in given.items()}
    )


def start(
    spark: SparkSession, options: MirrorOptions, checkpoint: str, trigger: Trigger | None = None
) -> MirrorJob:
    """Start a mirror; by default for the data that is available now."""
    settings = QuerySettings(
        name=options.transactional_id, checkpoint=checkpoint, trigger=trigger or AvailableNow()
    )
    return run(spark, options, settings)


def mirror(spark: SparkSession, options: MirrorOptions, checkpoint: str) -> MirrorJob:
    """Mirror all present data."""
    job = start(spark, options, checkpoint)
    assert job.query.awaitTermination(QUERY_TIMEOUT_S)
    return job
