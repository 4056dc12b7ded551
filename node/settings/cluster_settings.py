"""The broker settings of the cluster: quorum, sessions of brokers, replication, authentication of peers.

A default that is not Kafka's: `process.roles` follows from `controller.quorum.voters`. `cluster.secret` is
not a setting of Kafka.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigKey,
    ConfigScope,
    ConfigValue,
    Validator,
    at_least,
    list_of,
    one_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import BOOLEAN, HIGH, INT, LIST, LONG, LOW, PASSWORD, STRING, setting

# The length of a random 96-bit key in base64: an attacker who has recorded a handshake could find a short
# secret by trying words.
MIN_SECRET_CHARACTERS: Final = 16
# Values of ottla.anonymous.administrators: clients on the machines of the nodes, or all clients.
CLUSTER: Final = "cluster"
ANYWHERE: Final = "anywhere"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]@\s]+)):(\d{1,5})")
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumVoter:
    """An entry of `controller.quorum.voters`: a node and the address of its controller listener."""

    node_id: int
    host: str
    port: int


def parse_voters(entries: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """Return the voters of `controller.quorum.voters` (ID@HOST:PORT), by id; INVALID_CONFIG if not valid."""
    name = "controller.quorum.voters"
    voters: dict[int, QuorumVoter] = {}
    for entry in entries:
        id_text, separator, address = entry.partition("@")
        if not separator or not id_text.isascii() or not id_text.isdecimal() or int(id_text) > INT_MAX:
            raise _invalid(name, entry, "it must look like 1@HOST:PORT.")
        node_id = int(id_text)
        host, port = _address(name, entry, address)
        if node_id in voters:
            raise _invalid(name, entry, f"it names node {node_id} twice.")
        if any((one.host, one.port) == (host, port) for one in voters.values()):
            raise _invalid(name, entry, f"two voters cannot share {host}:{port}.")
        voters[node_id] = QuorumVoter(node_id=node_id, host=host, port=port)
    return tuple(voter for _, voter in sorted(voters.items()))


def parse_bootstrap_servers(entries: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parse `controller.quorum.bootstrap.servers` (HOST:PORT); INVALID_CONFIG if it is not valid."""
    return tuple(_address("controller.quorum.bootstrap.servers", entry, entry) for entry in entries)


def _address(name: str, entry: str, address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) <= _MAX_PORT:
        raise _invalid(name, entry, f"it must be HOST:PORT with a port of at most {_MAX_PORT}.")
    return match[1] or match[2], int(match[3])


def _secret_problem(value: ConfigValue) -> str | None:
    if value is None or (isinstance(value, str) and len(value) >= MIN_SECRET_CHARACTERS):
        return None
    return f"it must have at least {MIN_SECRET_CHARACTERS} characters."


NODES_PER_HOST: Final = "ottla.nodes.per.host"
AUTO: Final = "auto"
MAX_NODES_PER_HOST: Final = 64


def _nodes_problem(value: ConfigValue) -> str | None:
    text = str(value).strip()
    if text == AUTO or (text.isdecimal() and 1 <= int(text) <= MAX_NODES_PER_HOST):
        return None
    return f"it must be {AUTO}, or a number from 1 to {MAX_NODES_PER_HOST}."


_QUORUM = (
    setting(
        NODES_PER_HOST,
        STRING,
        "1",
        "The number of nodes that `ottla start` runs on this host, each in a process of its own, or auto "
        "for one per core; a single node uses about one core. The first node has the node.id, ports and "
        "roles set here. The others are brokers with the ids and ports that follow. Each has a directory "
        "node-ID in each of log.dirs. Unless broker.rack is set, the nodes of a host have one rack, so "
        "that the replicas of a partition are on different hosts.",
        Validator(allowed=f"auto, or 1 to {MAX_NODES_PER_HOST}", problem_of=_nodes_problem),
    ),
    setting(
        "process.roles",
        LIST,
        (),
        "The roles of this process: broker,controller, broker, or controller. The nodes in "
        "controller.quorum.voters must be controllers. One that is only a controller votes and may lead "
        "the metadata quorum; it stores no records and serves no clients but administrators. If empty, "
        "the node is a broker, and a controller if controller.quorum.voters implies it.",
        list_of("broker", "controller"),
        importance=HIGH,
    ),
    setting(
        "controller.listener.names",
        LIST,
        (),
        "The names of the listeners for communication between controllers. Only nodes that are not "
        "brokers serve Kafka's protocol there, to brokers and administrators. A node that is only a "
        "broker uses the first of them to connect to the controllers.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.voters",
        LIST,
        (),
        "The initial voters of the metadata quorum, as ID@HOST:PORT of their controller "
        "listeners. If empty, and controller.quorum.bootstrap.servers is empty too, the node is "
        "a cluster of its own.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Addresses of controllers, as HOST:PORT, through which this node joins a cluster without "
        "being one of its initial voters.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        False,
        "If true, a controller that is not a voter, and never was one with this disk, becomes one by itself. "
        "Otherwise `ottla quorum add` makes a broker a voter.",
        importance=LOW,
    ),
    setting(
        "controller.quorum.request.timeout.ms",
        INT,
        2_000,
        "How long to wait for the answer to a request to the controller before it is sent "
        "again, possibly to another controller.",
        at_least(1),
    ),
    setting(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "How long to wait before retrying a request to the controller; the delay doubles with each attempt.",
        at_least(0),
        importance=LOW,
    ),
)

_BROKERS = (
    setting(
        "inter.broker.listener.name",
        STRING,
        None,
        "The name of the listener for communication between brokers.",
    ),
    setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol between brokers, if inter.broker.listener.name is not set.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    setting(
        "broker.heartbeat.interval.ms",
        INT,
        2_000,
        "How often a broker sends a heartbeat to the controller.",
        at_least(1),
    ),
    setting(
        "broker.session.timeout.ms",
        INT,
        9_000,
        "A broker that sends no heartbeat for this long is fenced, and other brokers lead its "
        "partitions. A broker whose connection breaks is fenced within about a second.",
        at_least(1),
    ),
    setting(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "How long a starting broker tries to register with the controller before it gives up.",
        at_least(1),
    ),
    setting(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        "How long a broker tries to tell the controller that a log directory has failed before it shuts "
        "down, so that others lead the partitions in it.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Move leadership away from this broker before it shuts down.",
    ),
    setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Return leadership to the preferred leaders automatically.",
        importance=HIGH,
    ),
    setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often to look for partitions that are not led by their preferred leader.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often to look for leaderless partitions whose topic allows unclean leader election.",
        at_least(1),
    ),
)

_REPLICATION = (
    setting(
        "num.replica.fetchers",
        INT,
        1,
        "The number of connections from a follower to each leader.",
        at_least(1),
        importance=HIGH,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up with the leader for this long is removed from the ISR.",
        importance=HIGH,
    ),
    setting(
        "replica.fetch.max.bytes",
        INT,
        1024 * 1024,
        "The bytes that a follower tries to fetch per partition and request. A larger batch "
        "is still returned whole.",
        at_least(0),
    ),
    setting(
        "replica.fetch.min.bytes",
        INT,
        1,
        "The minimum bytes that a leader waits for before it answers a follower's fetch.",
        importance=HIGH,
    ),
    setting(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "The maximum time that a leader waits for new records before it answers a follower's fetch.",
        importance=HIGH,
    ),
    setting(
        "replica.fetch.response.max.bytes",
        INT,
        10 * 1024 * 1024,
        "The bytes that a follower tries to fetch per request, over all partitions.",
        at_least(0),
    ),
    setting(
        "replica.fetch.backoff.ms",
        INT,
        1_000,
        "How long a follower waits before it fetches a partition again after an error.",
        at_least(0),
    ),
    setting(
        "replica.socket.timeout.ms",
        INT,
        30_000,
        "How long a follower waits for an answer before it closes the connection.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "request.timeout.ms",
        INT,
        30_000,
        "How long to wait for answers to requests between brokers about transactions, such as "
        "transaction markers and verification.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "replica.selector.class",
        STRING,
        None,
        f"How to choose the replica that a consumer fetches from: {LEADER_SELECTOR} (the default) "
        f"or {RACK_AWARE_SELECTOR}, which prefers a replica in the consumer's rack.",
        one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    ),
    setting(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "The maximum bytes per second that this broker, as leader, sends to throttled followers.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "The maximum bytes per second that this broker, as follower, fetches for throttled replicas.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "The maximum bytes per second for copying replicas between the log directories of this broker.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "quota.window.num",
        INT,
        11,
        "The number of samples kept to measure clients and connections that have a quota.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "quota.window.size.seconds",
        INT,
        1,
        "The time span of each of the quota.window.num samples, in seconds.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "controller.quota.window.num",
        INT,
        11,
        "The number of samples over which a quota of controller mutations is measured: a quota that is used "
        "up is full again after their time.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "The time span of each of the controller.quota.window.num samples, in seconds.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "replication.quota.window.num",
        INT,
        11,
        "The number of samples kept to measure throttled replication.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "The time span of each of the replication.quota.window.num samples, in seconds.",
        at_least(1),
        importance=LOW,
    ),
)

_SECURITY = (
    setting(
        "cluster.secret",
        PASSWORD,
        None,
        "A secret shared by all nodes of the cluster. Nodes prove to each other by challenge and "
        f"response that they know it; it is never sent. Use at least {MIN_SECRET_CHARACTERS} "
        "characters, better 24 random bytes (openssl rand -base64 24), and preferably set it by the "
        "environment variable OTTLA_CLUSTER_SECRET.",
        Validator(allowed=f"at least {MIN_SECRET_CHARACTERS} characters", problem_of=_secret_problem),
        importance=HIGH,
    ),
    setting(
        "ottla.anonymous.administrators",
        STRING,
        CLUSTER,
        "Where requests may come from that change the cluster itself, if there is no authorizer: broker "
        "settings, voters, features, registrations, leaders, replica placement and transaction markers. "
        f"{CLUSTER} allows the machines of the cluster's nodes, {ANYWHERE} allows every client that can "
        "connect. With an authorizer (authorizer.class.name) only its ACLs decide.",
        one_of(CLUSTER, ANYWHERE),
    ),
)

CLUSTER_SETTINGS: Final[tuple[ConfigKey, ...]] = (*_QUORUM, *_BROKERS, *_REPLICATION, *_SECURITY)


def _invalid(name: str, value: str, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {value[:200]} for configuration {name}: {problem}"
    )
