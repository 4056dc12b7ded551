"""The table of broker settings that a node honours: Kafka's names, types, defaults, limits and scopes.

`BROKER_CONFIG_DEF` feeds the parser of `config`, DescribeConfigs and AlterConfigs. The settings of topics
that a broker has as defaults (`log.*`) come from `ottla.logstore.log_config`.

Defaults that are not Kafka's: `log.dir`, so that a node and an Apache Kafka without configuration can run on
one machine; `socket.listen.backlog.size`, because 50 rejects clients that all reconnect at once; `node.id`,
which is 0 if not set.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.logstore.log_config import BROKER_LOG_KEYS, check_compaction_lags, topic_defaults
from ottla.logstore.words.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigScope,
    ConfigValue,
    Validator,
    at_least,
    entries,
    one_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.memory.memory_budget import MIN_MEMORY_BYTES
from ottla.node.settings.audit_settings import AUDIT_SETTINGS
from ottla.node.settings.authorization_settings import AUTHORIZATION_SETTINGS
from ottla.node.settings.balance_settings import BALANCE_SETTINGS
from ottla.node.settings.cluster_settings import CLUSTER_SETTINGS
from ottla.node.settings.failed_login_settings import FAILED_LOGIN_SETTINGS
from ottla.node.settings.first_users import ADD_SCRAM
from ottla.node.settings.group_settings import GROUP_SETTINGS
from ottla.node.settings.metrics_settings import METRICS_SETTINGS
from ottla.node.settings.rest_security_settings import REST_SECURITY_SETTINGS
from ottla.node.settings.rest_settings import REST_SETTINGS
from ottla.node.settings.sasl_settings import SASL_LISTENER_SETTINGS, SASL_SETTINGS, mechanism_setting
from ottla.node.settings.secure_settings import SECURE_SETTINGS
from ottla.node.settings.security_settings import LISTENER_SETTINGS, TLS_SETTINGS
from ottla.node.settings.setting import BOOLEAN, DOUBLE, HIGH, INT, LIST, LONG, LOW, PASSWORD, STRING, setting
from ottla.node.settings.share_coordinator_settings import SHARE_COORDINATOR_SETTINGS
from ottla.node.settings.share_partition_settings import SHARE_PARTITION_SETTINGS
from ottla.node.settings.transaction_settings import TRANSACTION_SETTINGS

_CLUSTER_WIDE = ConfigScope.CLUSTER_WIDE
DEDUPE_BUFFER: Final = "log.cleaner.dedupe.buffer.size"
MIN_DEDUPE_BUFFER_BYTES: Final = 1 << 20  # for each cleaner thread; as in Kafka, it must be more than that
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def _cluster_id_problem(value: ConfigValue) -> str | None:
    if value is None or (isinstance(value, str) and _CLUSTER_ID.fullmatch(value)):
        return None
    return "it must be a UUID as 22 characters of base64url."


def _memory_problem(value: ConfigValue) -> str | None:
    if value == -1 or (isinstance(value, int) and value >= MIN_MEMORY_BYTES):
        return None
    return f"it must be -1 or at least {MIN_MEMORY_BYTES}, about what an idle node uses."


_IDENTITY = (
    setting("node.id", INT, 0, "The id of this node, unique in the cluster.", at_least(0), importance=HIGH),
    setting("broker.id", INT, -1, "The former name of node.id. If both are set, they must be equal."),
    setting(
        "cluster.id",
        STRING,
        None,
        "The id of the cluster, used when a new cluster is founded: a UUID as 22 characters of "
        "base64url, random if not set. A node whose data belongs to another cluster refuses to "
        "start.",
        Validator(allowed="22 characters of base64url", problem_of=_cluster_id_problem),
    ),
    setting(
        "pid.file",
        STRING,
        None,
        "A file that holds the process id while the node runs. `ottla cluster up` sets it.",
    ),
    setting(
        "ottla.log.format",
        STRING,
        "text",
        "The format of the node's own log: text writes one line per event, json one JSON object per event.",
        one_of("text", "json"),
        importance=LOW,
    ),
    setting(
        "broker.rack",
        STRING,
        None,
        "The rack of this broker. Replicas of a partition are spread over different racks.",
    ),
)

_NETWORK = (
    setting(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "The addresses to listen on, as NAME://HOST:PORT. Without a host, the node listens on "
        "all addresses; port 0 picks a free port.",
        importance=HIGH,
    ),
    setting(
        ADD_SCRAM,
        PASSWORD,
        None,
        "The first users of a new cluster, as SCRAM-SHA-512=[name=NAME,password=PASSWORD], separated by "
        "semicolons; set it on every initial voter. It has no effect in a cluster that exists already.",
        importance=LOW,
    ),
    setting(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients are to connect to, as NAME://HOST:PORT. If empty, each client "
        "gets the address that it has connected to.",
        importance=HIGH,
    ),
    setting(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs.",
        importance=LOW,
    ),
    setting(
        "socket.request.max.bytes",
        INT,
        100 * 1024 * 1024,
        "The maximum size of a request in bytes. A connection that sends a larger one is closed.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "socket.listen.backlog.size",
        INT,
        512,
        "The maximum number of connections that wait to be accepted.",
        at_least(1),
    ),
    setting(
        "socket.send.buffer.bytes",
        INT,
        100 * 1024,
        "The SO_SNDBUF size of connections that fetch records; -1 leaves it to the operating "
        "system, as for all other connections.",
        importance=HIGH,
    ),
    setting(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "Close a connection after this time without activity.",
    ),
    setting(
        "max.connections",
        INT,
        INT_MAX,
        "The maximum number of connections to this node; any further one is closed at once. Set "
        "listener.name.NAME.max.connections to limit a single listener.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "The maximum number of connections that this node accepts per second; further ones wait. Set "
        "listener.name.NAME.max.connection.creation.rate to limit a single listener.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "The maximum number of connections from one IP address.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Limits for single IP addresses or host names that override max.connections.per.ip, "
        "as ADDRESS:LIMIT,ADDRESS:LIMIT.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "queued.max.request.bytes",
        LONG,
        -1,
        "The maximum total size of requests in memory. Beyond it, the node stops reading from "
        "connections. -1 uses a share of the node's memory (ottla.memory.max.bytes).",
    ),
    setting(
        "ottla.memory.max.bytes",
        LONG,
        -1,
        "The memory that the process of this node may use; up to six tenths of it is for client "
        "data. -1 uses the memory limit of the cgroup, such as a container's, or the memory of "
        "the machine.",
        Validator(allowed="-1, or at least 67108864", problem_of=_memory_problem),
    ),
    setting(
        "fetch.max.bytes", INT, 55 * 1024 * 1024, "The maximum size of a fetch response.", at_least(1024)
    ),
    setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "The maximum number of incremental fetch sessions; there are fewer if there is not enough memory "
        "for their partitions.",
        at_least(0),
    ),
    setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        "The maximum number of partitions in a DescribeTopicPartitions response.",
        at_least(1),
    ),
)

_TOPICS = (
    setting(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Create a topic automatically when a client that allows it asks for a topic that does not exist.",
        importance=HIGH,
    ),
    setting("num.partitions", INT, 1, "The default number of partitions of new topics.", at_least(1)),
    setting("default.replication.factor", INT, 1, "The default replication factor of new topics."),
    setting("delete.topic.enable", BOOLEAN, True, "Allow topics to be deleted.", importance=HIGH),
)

_STORAGE = (
    setting(
        "log.dirs",
        LIST,
        None,
        "The directories that hold the data. If not set, log.dir is used.",
        entries(may_be_absent=True),
        importance=HIGH,
    ),
    setting(
        "log.dir",
        LIST,
        ("/tmp/ottla-logs",),
        "The directory that holds the data, if log.dirs is not set.",
        entries(),
        importance=HIGH,
    ),
    setting(
        "metadata.log.dir",
        STRING,
        None,
        "The directory that holds the cluster metadata. If not set, the first of log.dirs is used.",
        importance=HIGH,
    ),
    setting(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20 * 1024 * 1024,
        "Take a snapshot of the metadata after this many bytes of new metadata records.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        "Take a snapshot of the metadata after this time if there are new metadata records; "
        "0 turns this off.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "The number of threads per data directory that open logs at startup.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often to look for segments past their retention.",
        at_least(1),
    ),
    setting(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "The delay between startup and the first log cleanup.",
        at_least(0),
        importance=LOW,
        internal=True,
    ),
    setting(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often to write the recovery points of the logs.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often to write the log start offsets.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often to write the high watermarks.",
        importance=HIGH,
    ),
    setting(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        "Run the cleaner, which compacts topics with cleanup.policy=compact.",
    ),
    setting(
        "log.cleaner.threads",
        INT,
        1,
        "The number of logs that can be compacted at the same time.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        DEDUPE_BUFFER,
        LONG,
        128 * 1024 * 1024,
        "The memory for the keys of all logs being compacted. The default is lower on a node "
        "with less than 3 GiB of memory (ottla.memory.max.bytes).",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.buffer.size",
        INT,
        512 * 1024,
        "The memory for reading and writing while compacting.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the memory for keys may become, from 0 to 1. A higher value cleans more of a log per pass.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "The maximum bytes per second that compaction reads and writes.",
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long the cleaner sleeps when there is nothing to compact.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "ottla.log.scrub.interval.ms",
        LONG,
        604_800_000,
        "How often to read all logs of the node completely to find damage: damaged segments are "
        "repaired from another replica, damaged indexes rebuilt. 0 turns these checks off; "
        "damage found by a reader is still repaired.",
        at_least(0),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "ottla.log.scrub.bytes.per.second",
        LONG,
        10_485_760,
        "The maximum bytes per second read to find damage and copied to repair it.",
        at_least(1),
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "Forget the state of a producer id after this time without writes.",
        at_least(1),
        importance=LOW,
        scope=_CLUSTER_WIDE,
    ),
    setting(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often to look for expired producer ids.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
)

_CONNECTION_SETTINGS: Final = ("max.connection.creation.rate", "max.connections")
_SETTINGS_OF_LISTENERS: Final = sorted({*LISTENER_SETTINGS, *SASL_LISTENER_SETTINGS, *_CONNECTION_SETTINGS})
_OF_A_LISTENER = re.compile(
    r"listener\.name\.([A-Za-z0-9_.-]+)\." rf"({'|'.join(map(re.escape, _SETTINGS_OF_LISTENERS))})"
)


def listener_setting(name: str) -> tuple[str, str] | None:
    """Return listener and setting of a name like `listener.name.inner.max.connections`; None for others."""
    match = None if mechanism_setting(name) else _OF_A_LISTENER.fullmatch(name)
    return None if match is None else (match[1].upper(), match[2])


def _base_name(name: str) -> str | None:
    of_mechanism = mechanism_setting(name)
    if of_mechanism is not None:
        return of_mechanism.setting
    found = listener_setting(name)
    return None if found is None else found[1]


BROKER_CONFIG_DEF: Final = ConfigDef(
    "broker",
    (
        *_IDENTITY,
        *_NETWORK,
        *CLUSTER_SETTINGS,
        *TLS_SETTINGS,
        *SASL_SETTINGS,
        *FAILED_LOGIN_SETTINGS,
        *AUTHORIZATION_SETTINGS,
        *AUDIT_SETTINGS,
        *SECURE_SETTINGS,
        *_TOPICS,
        *_STORAGE,
        *GROUP_SETTINGS,
        *TRANSACTION_SETTINGS,
        *SHARE_COORDINATOR_SETTINGS,
        *SHARE_PARTITION_SETTINGS,
        *REST_SETTINGS,
        *REST_SECURITY_SETTINGS,
        *METRICS_SETTINGS,
        *BALANCE_SETTINGS,
        *BROKER_LOG_KEYS,
    ),
    base_name=_base_name,
)


def check_log_settings(values: Mapping[str, ConfigValue]) -> None:
    """Raise INVALID_CONFIG, as Apache Kafka does, if settings of the logs contradict each other."""
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
