"""Topics for the tests, with records in them, by a client that is not under test."""

from collections.abc import Callable
from functools import partial
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.topic_admin import ConfigSource, alter_configs, describe_configs
from tests.compat.wire_client import eventually

TIMEOUT_S = 120.0


def settings_for(bootstrap: str, role: Role = Role.SOURCE, **given: str) -> ClientSettings:
    """Return settings with quick retries; underscores stand for dots."""
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.retry.backoff.ms": "10"}
    options |= {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}
    return ClientSettings.from_options(options, role)


def make_topic(bootstrap: str, *, partitions: int = 1, replicas: int = 1, name: str = "") -> str:
    """Create a topic and return its name."""
    name = name or f"t-{uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas)
    for made in admin.create_topics([topic], operation_timeout=TIMEOUT_S).values():
        made.result(TIMEOUT_S)
    return name


def fill(
    bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0, timestamp_ms: int = 0
) -> None:
    """Write records with these values, and timestamps that rise by 1 ms (0: now)."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for index, value in enumerate(values):
        more = {"timestamp": timestamp_ms + index} if timestamp_ms else {}
        producer.produce(topic, value=value, partition=partition, **more)
    assert producer.flush(TIMEOUT_S) == 0


def alter_everywhere(bootstrap: str, topic: str, configs: dict[str, str]) -> None:
    """Change settings of a topic, and return once each node of `bootstrap` describes their new values."""
    cluster = Cluster(settings_for(bootstrap, Role.SINK))
    assert alter_configs(cluster, {topic: configs}) == {topic: None}
    cluster.close()
    _wait_for_each_node(bootstrap, lambda node: configs.items() <= own_configs(node, topic).items())


def _wait_for_each_node(bootstrap: str, holds: Callable[[Cluster], bool]) -> None:
    """Wait until a condition holds for a client of each node: their metadata change one after another."""
    for address in bootstrap.split(","):
        node = Cluster(settings_for(address, Role.SINK))
        assert eventually(partial(holds, node), bool), address
        node.close()


def own_configs(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """Return the settings that the topic itself has, as the node that is asked first knows them."""
    configs = describe_configs(cluster, [topic]).get(topic, {})
    return {name: one.value for name, one in configs.items() if one.source is ConfigSource.TOPIC}


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic with all its records, and return once no node knows it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([name]).values():
        deleted.result(TIMEOUT_S)
    _wait_for_each_node(bootstrap, lambda node: name not in node.topics([name]))


def delete_records(bootstrap: str, name: str, before: int, *, partition: int = 0) -> None:
    """Delete records as retention does: the log then begins at that offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([ConfluentPartition(name, partition, before)]).values():
        deleted.result(TIMEOUT_S)


def add_partitions(bootstrap: str, name: str, count: int) -> None:
    """Add partitions, up to `count` in all."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for added in admin.create_partitions([NewPartitions(name, count)]).values():
        added.result(TIMEOUT_S)


def fill_in_transactions(bootstrap: str, topic: str, outcomes: list[bool]) -> None:
    """Write one record per transaction, with the index as its value; True commits it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid4().hex})
    producer.init_transactions(TIMEOUT_S)
    for index, commits in enumerate(outcomes):
        producer.begin_transaction()
        producer.produce(topic, value=b"%d" % index, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(TIMEOUT_S)


def fill_keys(bootstrap: str, topic: str, records: list[tuple[str, bytes | None]]) -> None:
    """Write records with these keys and values; None is a tombstone."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value=value, key=key)
    assert producer.flush(TIMEOUT_S) == 0
