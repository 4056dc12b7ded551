"""Each setting of Java's clients is decided: read, without effect here, or refused.

Names are those of Java's producer, consumer and admin client (kafka-clients 3.9 to 4.4); `client_settings`
lists those that are read, and `security_names`, which the command line shares, those of encryption and
logins. A setting is without effect only if its user misses nothing. Otherwise it is refused with a reason: no
query is better than one that does not do what its options say.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.logstore.words.old_names import OLD_CLIENT_NAMES, old_name_hint
from ottla.node.secure_client import security_names
from ottla.pipeline.words import HIDDEN, OptionError, with_nearest

PREFIX: Final = "kafka."  # of a client's settings among Spark's options

_NO_CONNECTION_POLICY = "connections are opened when needed, and reopened when lost"
_NO_METRICS = "Spark shows the progress of a query"
_NO_MEMBERSHIP = "Spark divides the partitions; the query joins no group"
_NO_BUFFER = "Spark hands rows over batch by batch"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "auto.commit.interval.ms": "progress is committed with each batch",
    "auto.include.jmx.reporter": _NO_METRICS,
    "bootstrap.resolve.timeout.ms": _NO_CONNECTION_POLICY,
    "buffer.memory": _NO_BUFFER,
    "buffer.memory.allocation.strategy": _NO_BUFFER,
    "client.dns.lookup": "all addresses of a name are tried",
    "client.rack": "rows are fetched from leaders",
    "connections.max.idle.ms": _NO_CONNECTION_POLICY,
    "enable.metrics.push": _NO_METRICS,
    "group.instance.id": _NO_MEMBERSHIP,
    "group.protocol": _NO_MEMBERSHIP,
    "group.remote.assignor": _NO_MEMBERSHIP,
    "heartbeat.interval.ms": _NO_MEMBERSHIP,
    "internal.leave.group.on.close": _NO_MEMBERSHIP,
    "internal.throw.on.fetch.stable.offset.unsupported": "every supported node knows stable offsets",
    "linger.ms": _NO_BUFFER,
    "max.poll.interval.ms": _NO_MEMBERSHIP,
    "max.poll.records": "a whole fetch is read at once",
    "metadata.cluster.check.enable": _NO_CONNECTION_POLICY,
    "metadata.max.idle.ms": "metadata of a topic expires by its age alone",
    "metadata.recovery.rebootstrap.trigger.ms": _NO_CONNECTION_POLICY,
    "metadata.recovery.strategy": "the bootstrap addresses are always tried as well",
    "metrics.num.samples": _NO_METRICS,
    "metrics.recording.level": _NO_METRICS,
    "metrics.sample.window.ms": _NO_METRICS,
    "partition.assignment.strategy": _NO_MEMBERSHIP,
    "partitioner.adaptive.partitioning.enable": _NO_BUFFER,
    "partitioner.availability.timeout.ms": _NO_BUFFER,
    "partitioner.rack.aware": _NO_BUFFER,
    "reconnect.backoff.max.ms": "retry.backoff.max.ms applies to all attempts",
    "reconnect.backoff.ms": "retry.backoff.ms applies to all attempts",
    "retries": "the time for all attempts is limited, not their number",
    "session.timeout.ms": _NO_MEMBERSHIP,
    "share.acknowledgement.mode": _NO_MEMBERSHIP,
    "share.acquire.mode": _NO_MEMBERSHIP,
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms applies to all attempts",
    **security_names.WITHOUT_EFFECT,
}

_A_JAVA_CLASS = "names a Java class, and this client is written in Python"
_ROWS_ARE_COLUMNS = "does not apply to this format: key and value are binary columns, convert them in Spark"

REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": (
        "does not apply to this format: use startingOffsets, and failOnDataLoss for deleted records"
    ),
    "bootstrap.controllers": "leads to controllers, but records are on brokers: use bootstrap.servers",
    "config.providers": _A_JAVA_CLASS,
    "enable.auto.commit": "does not apply to this format: the checkpoint stores the read position",
    "interceptor.classes": _A_JAVA_CLASS,
    "key.deserializer": _ROWS_ARE_COLUMNS,
    "key.serializer": _ROWS_ARE_COLUMNS,
    "metric.reporters": _A_JAVA_CLASS,
    "partitioner.class": _A_JAVA_CLASS,
    "partitioner.ignore.keys": "is not supported: rows with a key are partitioned as by Java's producer",
    "transactional.id": "is an option of this format; use it without the prefix",
    "value.deserializer": _ROWS_ARE_COLUMNS,
    "value.serializer": _ROWS_ARE_COLUMNS,
}

# `ssl.keystore.certificate.chain` and `ssl.truststore.certificates` are passwords in Java, so they are here.
_SECRET_ENDS = (
    ".password",
    ".passphrase",
    ".secret",
    ".jaas.config",
    ".keystore.key",
    ".chain",
    ".certificates",
)


def refusal_reason(name: str) -> str | None:
    """Return the rest of a sentence that begins with the setting's name, or None if it is not refused."""
    return security_names.problem_of_name(name) or REFUSED.get(name) or old_name_hint(name, OLD_CLIENT_NAMES)


def idle_reason(name: str, security_protocol: str) -> str:
    """Return the rest of a sentence that says why a setting changes nothing in a source."""
    if name in security_names.READ:
        return f"{PREFIX}security.protocol is {security_protocol}"
    if security_names.is_of_security(name):
        return WITHOUT_EFFECT.get(name, "it requests the default behaviour")
    return WITHOUT_EFFECT.get(name, "is a setting of the sink")


def check_names(names: Iterable[str], honoured: Iterable[str]) -> tuple[str, ...]:
    """Return the names without effect here, sorted; OptionError for one that is refused or unknown."""
    known = set(honoured)
    idle = []
    for name in sorted(names):
        if name in known:
            continue
        if (problem := refusal_reason(name)) is not None:
            raise OptionError(PREFIX + name, problem)
        if name not in WITHOUT_EFFECT:
            problem = "is not a setting of a Kafka client"
            raise OptionError(PREFIX + name, with_nearest(problem, name, [*known, *WITHOUT_EFFECT, *REFUSED]))
        idle.append(name)
    return tuple(idle)


def is_secret(name: str) -> bool:
    """Return True if the value of an option or setting may be a secret."""
    return name.lower().endswith(_SECRET_ENDS) or "password" in name.lower()


def redacted(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as they may be shown in plans and logs."""
    return {name: HIDDEN if is_secret(name) else value for name, value in options.items()}
