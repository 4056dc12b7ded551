"""The settings of a node among others: quorum, sessions of brokers, replication, proof of who a peer is.

Where a default is not Kafka's: `process.roles` follows from `controller.quorum.voters`; `ssl.*.type` is PEM,
the one that is read. `cluster.secret` is ours.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.config_def import (
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
from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import BOOLEAN, HIGH, INT, LIST, LONG, LOW, PASSWORD, STRING, setting

# As long as a random 96-bit key in base64: whoever records a handshake must not find it by trying words.
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
    """One of `controller.quorum.voters`: where its controller listens."""

    node_id: int
    host: str
    port: int


def parse_voters(entries: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """`controller.quorum.voters`, ID@HOST:PORT each, by id; INVALID_CONFIG with one sentence otherwise."""
    name = "controller.quorum.voters"
    voters: dict[int, QuorumVoter] = {}
    for entry in entries:
        id_text, separator, address = entry.partition("@")
        if not separator or not id_text.isascii() or not id_text.isdecimal() or int(id_text) > INT_MAX:
            raise _invalid(name, entry, "it must look like 1@HOST:PORT.")
        node_id = int(id_text)
        host, port = _address(name, entry, address)
        if node_id in voters:
            raise _invalid(name, entry, f"the node {node_id} is there twice.")
        if any((one.host, one.port) == (host, port) for one in voters.values()):
            raise _invalid(name, entry, f"two voters cannot share {host}:{port}.")
        voters[node_id] = QuorumVoter(node_id=node_id, host=host, port=port)
    return tuple(voter for _, voter in sorted(voters.items()))


def parse_bootstrap_servers(entries: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """`controller.quorum.bootstrap.servers`, HOST:PORT each."""
    return tuple(_address("controller.quorum.bootstrap.servers", entry, entry) for entry in entries)


def _address(name: str, entry: str, address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) <= _MAX_PORT:
        raise _invalid(name, entry, f"it needs HOST:PORT with a port of at most {_MAX_PORT}.")
    return match[1] or match[2], int(match[3])


def _secret_problem(value: ConfigValue) -> str | None:
    if value is None or (isinstance(value, str) and len(value) >= MIN_SECRET_CHARACTERS):
        return None
    return f"it must have at least {MIN_SECRET_CHARACTERS} characters."


_QUORUM = (
    setting(
        "process.roles",
        LIST,
        (),
        "What this process does: broker,controller or broker. Every node is a broker; those in"
        " controller.quorum.voters are controllers too, which is what an empty list stands for.",
        list_of("broker", "controller"),
        importance=HIGH,
    ),
    setting(
        "controller.listener.names",
        LIST,
        (),
        "The listeners over which the controllers talk to each other; clients are not served there. A node"
        " that is no controller takes from the first of them how to reach the controllers.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.voters",
        LIST,
        (),
        "The nodes that decide about the cluster's metadata, as ID@HOST:PORT of their controller listeners."
        " Without it a node is a cluster of its own.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Controllers' addresses, as HOST:PORT, of a cluster that this node joins without being one of its"
        " voters at the start.",
        importance=HIGH,
    ),
    setting(
        "controller.quorum.request.timeout.ms",
        INT,
        2_000,
        "How long one request to the controller may take before it is sent again, perhaps to another.",
        at_least(1),
    ),
    setting(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "How long to wait before a request to the controller is sent again; twice as long each time.",
        at_least(0),
        importance=LOW,
    ),
)

_BROKERS = (
    setting(
        "inter.broker.listener.name", STRING, None, "The listener over which brokers talk to each other."
    ),
    setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol among brokers, where inter.broker.listener.name is not given.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    setting(
        "broker.heartbeat.interval.ms",
        INT,
        2_000,
        "How often a broker tells the controller that it lives.",
        at_least(1),
    ),
    setting(
        "broker.session.timeout.ms",
        INT,
        9_000,
        "How long a broker may be silent before others lead its partitions. One whose connection breaks is"
        " fenced within about a second.",
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
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a broker that is told to stop hands its partitions over first.",
    ),
    setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether partitions go back to their preferred leaders by themselves.",
        importance=HIGH,
    ),
    setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often partitions that their preferred leaders do not lead are looked for.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often partitions without a leader are looked for whose topic allows an unclean election.",
        at_least(1),
    ),
)

_REPLICATION = (
    setting(
        "num.replica.fetchers",
        INT,
        1,
        "How many connections a follower has to each leader.",
        at_least(1),
        importance=HIGH,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up for this long is no longer in sync.",
        importance=HIGH,
    ),
    setting(
        "replica.fetch.max.bytes",
        INT,
        1024 * 1024,
        "How much a follower asks of each partition at a time; a larger batch comes whole.",
        at_least(0),
    ),
    setting("replica.fetch.min.bytes", INT, 1, "How much a leader waits for, at least.", importance=HIGH),
    setting(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a leader holds a follower's fetch back while there is nothing to give.",
        importance=HIGH,
    ),
    setting(
        "replica.fetch.response.max.bytes",
        INT,
        10 * 1024 * 1024,
        "How much a follower asks for at a time, all partitions together.",
        at_least(0),
    ),
    setting(
        "replica.fetch.backoff.ms",
        INT,
        1_000,
        "How long a follower leaves a partition alone after a failure.",
        at_least(0),
    ),
    setting(
        "replica.socket.timeout.ms",
        INT,
        30_000,
        "How long a follower waits for an answer before it gives the connection up.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "request.timeout.ms",
        INT,
        30_000,
        "How long this node waits for what it asks others about transactions: to write how one ended, and"
        " whether one goes on.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "replica.selector.class",
        STRING,
        None,
        f"From which replica a consumer is told to fetch: {LEADER_SELECTOR}, which is the default, or"
        f" {RACK_AWARE_SELECTOR} for one in its own rack.",
        one_of(LEADER_SELECTOR, RACK_AWARE_SELECTOR),
    ),
    setting(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes a second that this broker sends to the throttled followers of its partitions.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes a second that this broker fetches for its throttled followers.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes a second that replicas on their way from one log directory to another are copied with.",
        at_least(0),
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "replication.quota.window.num",
        INT,
        11,
        "Samples by which the rate of throttled replication is known.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "How long each of these samples is.",
        at_least(1),
        importance=LOW,
    ),
)

_SECURITY = (
    setting(
        "cluster.secret",
        PASSWORD,
        None,
        "What every node of the cluster knows and nobody else: nodes prove to each other, by challenge, that"
        f" they have it; it is never sent. At least {MIN_SECRET_CHARACTERS} characters, best in the"
        " environment as OTTLA_CLUSTER_SECRET.",
        Validator(allowed=f"at least {MIN_SECRET_CHARACTERS} characters", problem_of=_secret_problem),
        importance=HIGH,
    ),
    setting(
        "ottla.anonymous.administrators",
        STRING,
        CLUSTER,
        "From where requests are taken that change the cluster itself (settings of brokers, voters,"
        " features, registrations, leaders, where replicas lie, markers of transactions), since nobody can"
        f" log in yet: {CLUSTER} is the machines of its nodes, {ANYWHERE} is everybody who reaches it.",
        one_of(CLUSTER, ANYWHERE),
    ),
    setting(
        "ssl.keystore.type",
        STRING,
        "PEM",
        "The format of the keystore; PEM alone is read.",
        one_of("PEM"),
    ),
    setting(
        "ssl.keystore.location",
        STRING,
        None,
        "A PEM file with the private key of this node and the chain of its certificate, for the listeners of"
        " controllers whose protocol is SSL.",
        importance=HIGH,
    ),
    setting("ssl.key.password", PASSWORD, None, "The password of that private key.", importance=HIGH),
    setting(
        "ssl.truststore.type",
        STRING,
        "PEM",
        "The format of the truststore; PEM alone is read.",
        one_of("PEM"),
    ),
    setting(
        "ssl.truststore.location",
        STRING,
        None,
        "A PEM file with the certificates that vouch for the other nodes.",
        importance=HIGH,
    ),
)

CLUSTER_SETTINGS: Final[tuple[ConfigKey, ...]] = (*_QUORUM, *_BROKERS, *_REPLICATION, *_SECURITY)


def _invalid(name: str, value: str, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {value[:200]} for configuration {name}: {problem}"
    )
