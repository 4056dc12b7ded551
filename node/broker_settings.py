"""The table of broker settings that a node honours: Kafka's names, types, defaults, limits and scopes.

`BROKER_CONFIG_DEF` feeds the parser of `config`, DescribeConfigs and AlterConfigs. The settings of topics
that a broker has as defaults (`log.*`) come from `logstore.log_config`.

Where a default is not Kafka's: `log.dir`, so that a node and an Apache Kafka without configuration can live
on one machine; `socket.listen.backlog.size`, because 50 refuses clients that all come back at once; `node.id`
is 0 where none is given.
"""

import re
from typing import Final

from logstore.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigKey,
    ConfigScope,
    ConfigType,
    ConfigValue,
    Importance,
    Validator,
    at_least,
    between,
    list_of,
)
from logstore.log_config import BROKER_LOG_KEYS

_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _DOUBLE, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_CLUSTER_WIDE = ConfigScope.CLUSTER_WIDE
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def _cluster_id_problem(value: ConfigValue) -> str | None:
    if value is None or (isinstance(value, str) and _CLUSTER_ID.fullmatch(value)):
        return None
    return "it must be a uuid as 22 characters of base64url."


def _key(
    name: str,
    type_: ConfigType,
    default: ConfigValue,
    documentation: str,
    validator: Validator | None = None,
    *,
    importance: Importance = _MEDIUM,
    scope: ConfigScope = ConfigScope.READ_ONLY,
    internal: bool = False,
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=type_,
        default=default,
        documentation=documentation,
        validator=validator,
        importance=importance,
        scope=scope,
        internal=internal,  # honoured, and hidden from DescribeConfigs, as by Apache Kafka
    )


_IDENTITY = (
    _key("node.id", _INT, 0, "The number of this node in its cluster.", at_least(0), importance=_HIGH),
    _key("broker.id", _INT, -1, "The old name of node.id; if both are given they must agree."),
    _key(
        "process.roles",
        _LIST,
        ("broker", "controller"),
        "What this process does. A node of this cluster is always both broker and controller.",
        list_of("broker", "controller", may_be_empty=False),
        importance=_HIGH,
    ),
    _key(
        "cluster.id",
        _STRING,
        None,
        "The id of the cluster that a fresh node founds, a uuid as 22 characters of base64url; random if none"
        " is given. A node whose data belongs to another cluster refuses to start.",
        Validator(allowed="22 characters of base64url", problem_of=_cluster_id_problem),
    ),
    _key(
        "broker.rack", _STRING, None, "Where this node stands; replicas of a partition go to different racks."
    ),
)

_NETWORK = (
    _key(
        "listeners",
        _LIST,
        ("PLAINTEXT://:9092",),
        "Where this node listens, as NAME://HOST:PORT. Without a host it listens on all addresses; port 0"
        " takes a free one.",
        importance=_HIGH,
    ),
    _key(
        "advertised.listeners",
        _LIST,
        None,
        "What clients are told to connect to, as NAME://HOST:PORT. Without it they are told the address that"
        " they reached.",
        importance=_HIGH,
    ),
    _key(
        "listener.security.protocol.map",
        _STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs. PLAINTEXT alone is served.",
        importance=_LOW,
    ),
    _key("inter.broker.listener.name", _STRING, None, "The listener over which brokers talk to each other."),
    _key(
        "security.inter.broker.protocol",
        _STRING,
        "PLAINTEXT",
        "The security protocol among brokers, where inter.broker.listener.name is not given.",
    ),
    _key(
        "controller.listener.names",
        _LIST,
        (),
        "Listeners of Apache Kafka's controllers. They are not opened: the controller of this cluster needs"
        " none.",
        importance=_HIGH,
    ),
    _key(
        "socket.request.max.bytes",
        _INT,
        100 * 1024 * 1024,
        "The largest request; a longer one closes its connection.",
        at_least(1),
        importance=_HIGH,
    ),
    _key(
        "socket.listen.backlog.size",
        _INT,
        512,
        "How many connections may wait to be accepted.",
        at_least(1),
    ),
    _key(
        "connections.max.idle.ms",
        _LONG,
        600_000,
        "A connection on which nothing happened for this long is closed.",
    ),
    _key(
        "max.connections",
        _INT,
        INT_MAX,
        "How many connections this node holds; a further one is closed at once. As"
        " listener.name.NAME.max.connections it limits one listener.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "max.connections.per.ip",
        _INT,
        INT_MAX,
        "How many connections one address may hold.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        "Other limits for single addresses, as ADDRESS:LIMIT,ADDRESS:LIMIT.",
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "queued.max.request.bytes",
        _LONG,
        -1,
        "How many bytes of requests may be in memory at a time; no connection is read beyond. -1 takes a"
        " limit of this node's own.",
    ),
    _key("fetch.max.bytes", _INT, 55 * 1024 * 1024, "The most that one fetch returns.", at_least(1024)),
    _key(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        1000,
        "How many incremental fetch sessions are kept.",
        at_least(0),
    ),
    _key(
        "max.request.partition.size.limit",
        _INT,
        2000,
        "The most partitions that one DescribeTopicPartitions returns.",
        at_least(1),
    ),
)

_TOPICS = (
    _key(
        "auto.create.topics.enable",
        _BOOLEAN,
        True,
        "Whether a topic comes into being when a client that allows it asks for it.",
        importance=_HIGH,
    ),
    _key("num.partitions", _INT, 1, "Partitions of a topic created without a number.", at_least(1)),
    _key("default.replication.factor", _INT, 1, "Replicas of a topic created without a number."),
    _key("delete.topic.enable", _BOOLEAN, True, "Whether topics can be deleted.", importance=_HIGH),
)

_STORAGE = (
    _key("log.dirs", _LIST, None, "The directories of the data; log.dir if none is given.", importance=_HIGH),
    _key("log.dir", _LIST, ("/tmp/ottla-logs",), "The directory of the data.", importance=_HIGH),
    _key(
        "metadata.log.dir",
        _STRING,
        None,
        "The directory of the metadata; the first of log.dirs if none is given.",
        importance=_HIGH,
    ),
    _key(
        "metadata.log.max.record.bytes.between.snapshots",
        _LONG,
        20 * 1024 * 1024,
        "A snapshot of the metadata is made after this many bytes of changes.",
        at_least(1),
        importance=_HIGH,
    ),
    _key(
        "metadata.log.max.snapshot.interval.ms",
        _LONG,
        3_600_000,
        "A snapshot of the metadata is made after this time, if anything changed; 0 turns that off.",
        at_least(0),
        importance=_HIGH,
    ),
    _key(
        "num.recovery.threads.per.data.dir",
        _INT,
        2,
        "Threads for each data directory that open logs at start.",
        at_least(1),
        importance=_HIGH,
    ),
    _key(
        "log.retention.check.interval.ms",
        _LONG,
        300_000,
        "How often old segments are looked for.",
        at_least(1),
    ),
    _key(
        "log.initial.task.delay.ms",
        _LONG,
        30_000,
        "How long after the start the first housekeeping of logs begins.",
        at_least(0),
        importance=_LOW,
        internal=True,
    ),
    _key(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        "How often the recovery points are written.",
        at_least(0),
        importance=_HIGH,
    ),
    _key(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60_000,
        "How often the log start offsets are written.",
        at_least(0),
        importance=_HIGH,
    ),
    _key(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        5_000,
        "How often the high watermarks are written.",
        importance=_HIGH,
    ),
    _key("log.cleaner.enable", _BOOLEAN, True, "Whether compacted topics are compacted."),
    _key(
        "log.cleaner.threads",
        _INT,
        1,
        "Logs that are compacted at the same time.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        128 * 1024 * 1024,
        "Memory for the keys of the logs that are compacted, all of them together.",
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "log.cleaner.io.buffer.size",
        _INT,
        512 * 1024,
        "Memory for reading and writing while compacting.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "log.cleaner.io.buffer.load.factor",
        _DOUBLE,
        0.9,
        "How full the memory for keys may become.",
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        1.7976931348623157e308,
        "How much compaction may read and write in a second.",
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "log.cleaner.backoff.ms",
        _LONG,
        15_000,
        "How long to wait when there is nothing to compact.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "producer.id.expiration.ms",
        _INT,
        86_400_000,
        "A producer that wrote nothing for this long is forgotten.",
        at_least(1),
        importance=_LOW,
        scope=_CLUSTER_WIDE,
    ),
    _key(
        "producer.id.expiration.check.interval.ms",
        _INT,
        600_000,
        "How often such producers are looked for.",
        at_least(1),
        importance=_LOW,
        internal=True,
    ),
)

_GROUPS = (
    _key("group.min.session.timeout.ms", _INT, 6_000, "The shortest session timeout of a member."),
    _key("group.max.session.timeout.ms", _INT, 1_800_000, "The longest session timeout of a member."),
    _key(
        "group.initial.rebalance.delay.ms",
        _INT,
        3_000,
        "How long an empty group waits for more members before its first rebalance.",
    ),
    _key("group.max.size", _INT, INT_MAX, "The most members of a group.", at_least(1)),
    _key("offset.metadata.max.bytes", _INT, 4096, "The longest text beside a committed offset."),
    _key("offsets.commit.timeout.ms", _INT, 5_000, "How long a commit waits for replicas.", at_least(1)),
    _key(
        "offsets.retention.minutes",
        _INT,
        10_080,
        "The offsets of a group without members are forgotten after this time.",
        at_least(1),
        importance=_HIGH,
    ),
    _key(
        "offsets.retention.check.interval.ms",
        _LONG,
        600_000,
        "How often such offsets are looked for.",
        at_least(1),
    ),
    _key(
        "offsets.topic.num.partitions",
        _INT,
        50,
        "Partitions of the topic that holds offsets and groups; not to be changed once it exists.",
        at_least(1),
        importance=_HIGH,
    ),
    _key(
        "offsets.topic.replication.factor",
        _SHORT,
        3,
        "Replicas of that topic; while the cluster has fewer nodes, as many as it has.",
        at_least(1),
        importance=_HIGH,
    ),
    _key("offsets.topic.segment.bytes", _INT, 100 * 1024 * 1024, "Segment size of that topic.", at_least(1)),
    _key(
        "offsets.topic.compression.codec",
        _INT,
        0,
        "How that topic is compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
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
    (*_IDENTITY, *_NETWORK, *_TOPICS, *_STORAGE, *_GROUPS, *BROKER_LOG_KEYS),
    base_name=_base_name,
)

# Settings of groups of the newer protocol (KIP-848), kept for the groups that will have them.
GROUP_CONFIG_DEF: Final = ConfigDef(
    "group",
    (
        _key(
            "consumer.heartbeat.interval.ms",
            _INT,
            5_000,
            "How often a member of a consumer group of the newer protocol is told to send a heartbeat.",
            at_least(1),
            scope=_CLUSTER_WIDE,
        ),
        _key(
            "consumer.session.timeout.ms",
            _INT,
            45_000,
            "How long such a member may be silent.",
            at_least(1),
            scope=_CLUSTER_WIDE,
        ),
    ),
)
