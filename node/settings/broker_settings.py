"""The table of broker settings that a node honours: Kafka's names, types, defaults, limits and scopes.

`BROKER_CONFIG_DEF` feeds the parser of `config`, DescribeConfigs and AlterConfigs. The settings of topics
that a broker has as defaults (`log.*`) come from `ottla.logstore.log_config`.

Where a default is not Kafka's: `log.dir`, so that a node and an Apache Kafka without configuration can live
on one machine; `socket.listen.backlog.size`, because 50 refuses clients that all come back at once; `node.id`
is 0 where none is given.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.logstore.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigScope,
    ConfigValue,
    Validator,
    at_least,
    entries,
    one_of,
)
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.logstore.log_config import BROKER_LOG_KEYS, check_compaction_lags, topic_defaults
from ottla.node.memory.memory_budget import MIN_MEMORY_BYTES
from ottla.node.settings.cluster_settings import CLUSTER_SETTINGS
from ottla.node.settings.group_settings import GROUP_SETTINGS
from ottla.node.settings.metrics_settings import METRICS_SETTINGS
from ottla.node.settings.rest_settings import REST_SETTINGS
from ottla.node.settings.setting import BOOLEAN, DOUBLE, HIGH, INT, LIST, LONG, LOW, STRING, setting
from ottla.node.settings.transaction_settings import TRANSACTION_SETTINGS

_CLUSTER_WIDE = ConfigScope.CLUSTER_WIDE
DEDUPE_BUFFER: Final = "log.cleaner.dedupe.buffer.size"
MIN_DEDUPE_BUFFER_BYTES: Final = 1 << 20  # of each cleaner; Kafka wants more than that
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def _cluster_id_problem(value: ConfigValue) -> str | None:
    if value is None or (isinstance(value, str) and _CLUSTER_ID.fullmatch(value)):
        return None
    return "it must be a uuid as 22 characters of base64url."


def _memory_problem(value: ConfigValue) -> str | None:
    if value == -1 or (isinstance(value, int) and value >= MIN_MEMORY_BYTES):
        return None
    return f"it must be -1, or at least {MIN_MEMORY_BYTES}: an idle node has about as much."


_IDENTITY = (
    setting("node.id", INT, 0, "The number of this node in its cluster.", at_least(0), importance=HIGH),
    setting("broker.id", INT, -1, "The old name of node.id; if both are given they must agree."),
    setting(
        "cluster.id",
        STRING,
        None,
        "The id of the cluster that a fresh node founds, a uuid as 22 characters of base64url; random if none"
        " is given. A node whose data belongs to another cluster refuses to start.",
        Validator(allowed="22 characters of base64url", problem_of=_cluster_id_problem),
    ),
    setting(
        "pid.file",
        STRING,
        None,
        "A file in which the id of the process stands while the node runs. `ottla cluster up` sets it.",
    ),
    setting(
        "ottla.log.format",
        STRING,
        "text",
        "How the process of this node writes its own log: a line of text an event, or one of JSON.",
        one_of("text", "json"),
        importance=LOW,
    ),
    setting(
        "broker.rack", STRING, None, "Where this node stands; replicas of a partition go to different racks."
    ),
)

_NETWORK = (
    setting(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "Where this node listens, as NAME://HOST:PORT. Without a host it listens on all addresses; port 0"
        " takes a free one.",
        importance=HIGH,
    ),
    setting(
        "advertised.listeners",
        LIST,
        None,
        "What clients are told to connect to, as NAME://HOST:PORT. Without it they are told the address that"
        " they reached.",
        importance=HIGH,
    ),
    setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs. PLAINTEXT alone is served.",
        importance=LOW,
    ),
    setting(
        "socket.request.max.bytes",
        INT,
        100 * 1024 * 1024,
        "The largest request; a longer one closes its connection.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "socket.listen.backlog.size",
        INT,
        512,
        "How many connections may wait to be accepted.",
        at_least(1),
    ),
    setting(
        "socket.send.buffer.bytes",
        INT,
        100 * 1024,
        "SO_SNDBUF of connections that read records; -1 leaves it, like all others, to the system.",
        importance=HIGH,
    ),
    setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "A connection on which nothing happened for this long is closed.",
    ),
    setting(
        "max.connections",
        INT,
        INT_MAX,
        "How many connections this node holds; a further one is closed at once. As"
        " listener.name.NAME.max.connections it limits one listener.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "How many connections one address may hold.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for single addresses, as ADDRESS:LIMIT,ADDRESS:LIMIT.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "queued.max.request.bytes",
        LONG,
        -1,
        "How many bytes of requests may be in memory at a time; no connection is read beyond. -1 takes a"
        " share of what the node may have (ottla.memory.max.bytes).",
    ),
    setting(
        "ottla.memory.max.bytes",
        LONG,
        -1,
        "How much memory the process of this node may have; six tenths of it may be held for clients. -1"
        " takes the limit of the cgroup, as of a container, or the memory of the machine.",
        Validator(allowed="-1, or at least 67108864", problem_of=_memory_problem),
    ),
    setting("fetch.max.bytes", INT, 55 * 1024 * 1024, "The most that one fetch returns.", at_least(1024)),
    setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many incremental fetch sessions are kept, if there is memory for their partitions.",
        at_least(0),
    ),
    setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The most partitions that one DescribeTopicPartitions returns.",
        at_least(1),
    ),
)

_TOPICS = (
    setting(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether a topic comes into being when a client that allows it asks for it.",
        importance=HIGH,
    ),
    setting("num.partitions", INT, 1, "Partitions of a topic created without a number.", at_least(1)),
    setting("default.replication.factor", INT, 1, "Replicas of a topic created without a number."),
    setting("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", importance=HIGH),
)

_STORAGE = (
    setting(
        "log.dirs",
        LIST,
        None,
        "The directories of the data; log.dir if none is given.",
        entries(may_be_absent=True),
        importance=HIGH,
    ),
    setting("log.dir", LIST, ("/tmp/ottla-logs",), "The directory of the data.", entries(), importance=HIGH),
    setting(
        "metadata.log.dir",
        STRING,
        None,
        "The directory of the metadata; the first of log.dirs if none is given.",
        importance=HIGH,
    ),
    setting(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20 * 1024 * 1024,
        "A snapshot of the metadata is made after this many bytes of changes.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        "A snapshot of the metadata is made after this time, if anything changed; 0 turns that off.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "Threads for each data directory that open logs at start.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often old segments are looked for.",
        at_least(1),
    ),
    setting(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "How long after the start the first housekeeping of logs begins.",
        at_least(0),
        importance=LOW,
        internal=True,
    ),
    setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often the recovery points are written.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often the log start offsets are written.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often the high watermarks are written.",
        importance=HIGH,
    ),
    setting("log.cleaner.enable", BOOLEAN, True, "Whether compacted topics are compacted."),
    setting(
        "log.cleaner.threads",
        INT,
        1,
        "Logs that are compacted at the same time.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        DEDUPE_BUFFER,
        LONG,
        128 * 1024 * 1024,
        "Memory for the keys of the logs that are compacted, all of them together. Where it is not set, it is"
        " less on a node with less than 3 GiB (ottla.memory.max.bytes).",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.buffer.size",
        INT,
        512 * 1024,
        "Memory for reading and writing while compacting.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the memory for keys may become.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "How much compaction may read and write in a second.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long to wait when there is nothing to compact.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "ottla.log.scrub.interval.ms",
        LONG,
        604_800_000,
        "How often all logs of a node are read whole to find damage: segments are then repaired from another"
        " replica, indexes built anew. 0 for never; damage that a reader meets is looked at all the same.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "ottla.log.scrub.bytes.per.second",
        LONG,
        10_485_760,
        "How much of the logs is read in a second to find damage, and copied to repair it, at most.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "A producer that wrote nothing for this long is forgotten.",
        at_least(1),
        importance=LOW,
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often such producers are looked for.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
)

_OF_A_LISTENER = re.compile(r"listener\.name\.([A-Za-z0-9_.-]+)\.(max\.connections)")


def listener_setting(name: str) -> tuple[str, str] | None:
    """Listener and setting of a name such as `listener.name.inner.max.connections`; None for others."""
    match = _OF_A_LISTENER.fullmatch(name)
    return None if match is None else (match[1].upper(), match[2])


def _base_name(name: str) -> str | None:
    found = listener_setting(name)
    return None if found is None else found[1]


BROKER_CONFIG_DEF: Final = ConfigDef(
    "broker",
    (
        *_IDENTITY,
        *_NETWORK,
        *CLUSTER_SETTINGS,
        *_TOPICS,
        *_STORAGE,
        *GROUP_SETTINGS,
        *TRANSACTION_SETTINGS,
        *REST_SETTINGS,
        *METRICS_SETTINGS,
        *BROKER_LOG_KEYS,
    ),
    base_name=_base_name,
)


def check_log_settings(values: Mapping[str, ConfigValue]) -> None:
    """INVALID_CONFIG for settings of the logs that others forbid, as Apache Kafka has it."""
    check_compaction_lags(topic_defaults(values))
    if topic_defaults(values)["retention.ms"] == 0:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "log.retention.ms must be -1 (no limit) or at least 1.")
    buffer_bytes, threads = values[DEDUPE_BUFFER], values["log.cleaner.threads"]
    assert isinstance(buffer_bytes, int) and isinstance(threads, int)
    if buffer_bytes // threads <= MIN_DEDUPE_BUFFER_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "log.cleaner.dedupe.buffer.size must be more than 1 MB for each of log.cleaner.threads.",
        )
