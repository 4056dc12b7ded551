"""Settings of older versions of Apache Kafka, which have another name today or no replacement.

Most are of 0.8 and earlier; those of ZooKeeper ended with 3.9. Books and old files are full of them. A node
that ignored such a setting would not do what its file says, so the settings are rejected, and the error names
the replacement. Names that librdkafka still accepts are rejected too, because the Java clients do not know
them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NO_ZOOKEEPER = "controller.quorum.voters, as there is no ZooKeeper"

# Old name -> the text that says what to use instead.
OLD_BROKER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("advertised.host.name", "advertised.port"), "advertised.listeners"),
        "brokerid": "node.id",
        "controlled.shutdown.max.retries": "controlled.shutdown.enable alone",
        "controlled.shutdown.retry.backoff.ms": "controlled.shutdown.enable alone",
        "controller.message.queue.size": "nothing in its place",
        "enable.zookeeper": _NO_ZOOKEEPER,
        **dict.fromkeys(("host.name", "hostname", "port"), "listeners"),
        "log.cleanup.interval.mins": "log.retention.check.interval.ms, in milliseconds",
        "log.default.flush.interval.ms": "log.flush.interval.ms",
        "log.default.flush.scheduler.interval.ms": "log.flush.scheduler.interval.ms",
        "log.file.size": "log.segment.bytes",
        "log.flush.interval": "log.flush.interval.messages",
        "log.flush.interval.ms.per.topic": "the setting flush.ms of a topic",
        "log.retention.bytes.per.topic": "the setting retention.bytes of a topic",
        "log.retention.hours.per.topic": "the setting retention.ms of a topic",
        "log.retention.size": "log.retention.bytes",
        "log.roll.hours.per.topic": "the setting segment.ms of a topic",
        "log.segment.bytes.per.topic": "the setting segment.bytes of a topic",
        "max.message.size": "message.max.bytes",
        "max.socket.request.bytes": "socket.request.max.bytes",
        "num.threads": "num.network.threads",
        "replica.lag.max.messages": "replica.lag.time.max.ms",
        "socket.receive.buffer": "socket.receive.buffer.bytes",
        "socket.send.buffer": "socket.send.buffer.bytes",
        "topic.flush.intervals.ms": "the setting flush.ms of a topic",
        "topic.log.retention.hours": "the setting retention.ms of a topic",
        "topic.partition.count.map": "the number of partitions when a topic is created",
        **dict.fromkeys(
            (
                "zk.connect",
                "zk.connectiontimeout.ms",
                "zk.sessiontimeout.ms",
                "zk.synctime.ms",
                "zookeeper.connect",
                "zookeeper.connection.timeout.ms",
                "zookeeper.session.timeout.ms",
                "zookeeper.sync.time.ms",
            ),
            _NO_ZOOKEEPER,
        ),
    }
)

_NO_ZOOKEEPER_OF_CLIENTS = "bootstrap.servers, as there is no ZooKeeper"

OLD_CLIENT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto.commit.enable": "enable.auto.commit",
        "autocommit.enable": "enable.auto.commit",
        "autocommit.interval.ms": "auto.commit.interval.ms",
        "autooffset.reset": "auto.offset.reset, with earliest or latest",
        "batch.num.messages": "batch.size, in bytes",
        "broker.list": "bootstrap.servers",
        "buffer.size": "send.buffer.bytes",
        "compression.codec": "compression.type",
        "consumer.id": "client.id",
        "consumer.timeout.ms": "the time that each poll waits",
        "dual.commit.enabled": "nothing in its place",
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.size": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "groupid": "group.id",
        "key.serializer.class": "key.serializer",
        "max.message.size": "max.request.size",
        "message.send.max.retries": "delivery.timeout.ms",
        "metadata.broker.list": "bootstrap.servers",
        "offsets.storage": "nothing in its place",
        "producer.type": "linger.ms",
        "queue.buffering.max.messages": "buffer.memory, in bytes",
        "queue.buffering.max.ms": "linger.ms",
        "queue.enqueue.timeout.ms": "max.block.ms",
        "queue.size": "buffer.memory, in bytes",
        "queue.time": "linger.ms",
        "queued.max.message.chunks": "fetch.max.bytes",
        "rebalance.backoff.ms": "retry.backoff.ms",
        "rebalance.max.retries": "max.poll.interval.ms",
        "refresh.leader.backoff.ms": "retry.backoff.ms",
        "request.required.acks": "acks",
        "serializer.class": "value.serializer",
        "socket.buffersize": "receive.buffer.bytes",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.timeout.ms": "request.timeout.ms",
        "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
        **dict.fromkeys(
            (
                "zk.connect",
                "zookeeper.connect",
                "zookeeper.connection.timeout.ms",
                "zookeeper.session.timeout.ms",
                "zookeeper.sync.time.ms",
            ),
            _NO_ZOOKEEPER_OF_CLIENTS,
        ),
    }
)


def old_name_hint(name: str, old_names: Mapping[str, str]) -> str | None:
    """Return the rest of a sentence that begins with an old name; None for any other name."""
    instead = old_names.get(name)
    return None if instead is None else f"is a name of an older Apache Kafka; use {instead}"
