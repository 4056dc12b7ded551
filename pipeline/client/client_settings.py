"""The settings of a Kafka client that this one honours, under Java's names, read from options of Spark.

Defaults are Java's unless the class gives a reason. A source reads the settings of Java's consumer and a sink
those of its producer; a setting of the other side is accepted without effect, so that both can share options.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from ottla.node.secure_client.client_security import (
    PLAINTEXT,
    ClientSecurity,
    ClientSecurityError,
    read_client_security,
)
from ottla.node.secure_client.security_names import READ, is_of_security
from ottla.pipeline.client.setting_files import filled_in
from ottla.pipeline.client.setting_names import PREFIX, check_names
from ottla.pipeline.words import OptionError

T = TypeVar("T")

DEFAULT_PORT: Final = 9092
MAX_INT: Final = 2**31 - 1
# A node keeps the last five batches of a producer to tell a repeated one from a new one.
MAX_IN_FLIGHT: Final = 5
COMPRESSION_TYPES: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Role(Enum):
    """The Java client whose settings apply: the consumer's for a source, the producer's for a sink."""

    SOURCE = "source"
    SINK = "sink"


class TwoPhase(Enum):
    """The choice of transactions that never time out (KIP-939): if the cluster has them, never, or always."""

    AUTO = "auto"
    NEVER = "false"
    ALWAYS = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Every setting that has an effect; built by `from_options`."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    security: ClientSecurity = PLAINTEXT
    client_id: str = "ottla-pipeline"
    request_timeout_ms: int = 30_000
    # Metadata, offsets and coordinators, with all attempts; max.block.ms is the producer's name for it.
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    # -1 leaves the sizes to the system, which grows them as needed; Java's defaults are older than that.
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    # With Java's consumer a read may create the topic. A source never creates one.
    allow_auto_create_topics: bool = False
    exclude_internal_topics: bool = True
    read_committed: bool = False
    group_id: str | None = None
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    # One fetch is for one partition, and small fetches are costly: Java's 1 MiB halves the rows per second.
    max_partition_fetch_bytes: int = 8 * 1024 * 1024
    acks: int = -1  # -1: all in-sync replicas; 1: the leader
    enable_idempotence: bool = True
    max_in_flight: int = MAX_IN_FLIGHT
    # Rows come by the thousand, so Java's 16 KiB, made for single records, would mostly add headers. The size
    # is below the default of max.message.bytes, since splitting a batch is costly. It is lower for a topic
    # that takes less.
    batch_size: int = 900_000
    max_request_size: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    compression_type: str = "none"
    compression_level: int | None = None  # None: the default of the codec
    transaction_timeout_ms: int | None = None  # None: the longest that the cluster allows
    two_phase: TwoPhase = TwoPhase.AUTO
    without_effect: tuple[str, ...] = ()  # settings that were given and change nothing

    @classmethod
    def from_options(cls, options: Mapping[str, str], role: Role) -> "ClientSettings":
        """Read the options with the prefix `kafka.`; OptionError for the first that cannot be honoured."""
        given = {
            name.lower().removeprefix(PREFIX): filled_in(name, value).strip()
            for name, value in options.items()
            if name.lower().startswith(PREFIX)
        }
        idle = check_names((name for name in given if not is_of_security(name)), _READERS)
        fields: dict[str, object] = {}
        fields["security"], idle_of_security = _security(given)
        idle = (*idle, *idle_of_security)
        for name, value in given.items():
            reader = _READERS.get(name)
            if reader is None:
                continue
            read = reader.read(PREFIX + name, value)
            if role not in reader.roles:
                idle = (*idle, name)
            elif reader.field:
                fields[reader.field] = read
        if "bootstrap_servers" not in fields:
            raise OptionError(
                PREFIX + "bootstrap.servers",
                "is missing: set it to the addresses of some brokers, host:port[,host:port]",
            )
        fields["compression_level"] = _compression_level(given, str(fields.get("compression_type", "none")))
        if "acks" in fields and "enable_idempotence" not in fields:
            fields["enable_idempotence"] = fields["acks"] == -1  # as Java's producer
        settings = cls(**fields, without_effect=tuple(sorted(idle)))  # type: ignore[arg-type]
        settings._check()
        return settings

    def _check(self) -> None:
        if self.enable_idempotence and self.acks != -1:
            raise OptionError(PREFIX + "acks", "must be all while kafka.enable.idempotence is true")
        if self.retry_backoff_max_ms < self.retry_backoff_ms:
            raise OptionError(PREFIX + "retry.backoff.max.ms", "is less than kafka.retry.backoff.ms")
        if self.batch_size > self.max_request_size:
            raise OptionError(PREFIX + "batch.size", "is more than kafka.max.request.size")


# ---- readers --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One setting: the field that it fills ("" if it is only checked), its roles, and its reader."""

    field: str
    read: Callable[[str, str], object]
    roles: tuple[Role, ...] = (Role.SOURCE, Role.SINK)


def _text(_option: str, value: str) -> str:
    return value


def _boolean(option: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise OptionError(option, f"is {value!r}; it must be true or false")
    return value.lower() == "true"


def _integer(least: int, most: int = MAX_INT) -> Callable[[str, str], int]:
    def read(option: str, value: str) -> int:
        # Eleven characters are enough for every int32; int() of a million digits would take minutes.
        if not re.fullmatch(r"[+-]?[0-9]{1,11}", value):
            raise OptionError(option, f"is {value[:40]!r}; it must be a whole number")
        number = int(value)
        if not least <= number <= most:
            raise OptionError(option, f"is {number}; it must be from {least} to {most}")
        return number

    return read


def _one_of(values: Mapping[str, T]) -> Callable[[str, str], T]:
    def read(option: str, value: str) -> T:
        if value.lower() not in values:
            raise OptionError(option, f"is {value[:40]!r}; it must be one of {', '.join(values)}")
        return values[value.lower()]

    return read


def _acks(option: str, value: str) -> int:
    if value == "0":
        raise OptionError(
            option,
            "is 0, but records without an acknowledgement cannot be sent again when they are "
            "lost; use all or 1",
        )
    return _one_of({"all": -1, "-1": -1, "1": 1})(option, value)


def _always_true(option: str, value: str) -> bool:
    if not _boolean(option, value):
        raise OptionError(option, "is false, but checksums are always checked")
    return True


def _security(given: Mapping[str, str]) -> tuple[ClientSecurity, tuple[str, ...]]:
    """Return the security that the settings describe, and the names of those without effect."""
    try:
        security, idle = read_client_security(given)
    except ClientSecurityError as error:
        raise OptionError(PREFIX + error.name, error.problem) from None
    if "security.protocol" not in given:
        # A user who sets a login does not mean to send everything unencrypted, and to any server that
        # answers.
        for name in idle:
            if name in READ:
                raise OptionError(
                    PREFIX + name,
                    f"has no effect without {PREFIX}security.protocol: set that to SSL, SASL_SSL or "
                    "SASL_PLAINTEXT, or to PLAINTEXT if nothing is to be encrypted",
                )
    return security, idle


def _addresses(option: str, value: str) -> tuple[tuple[str, int], ...]:
    """Read `host:port,host,[::1]:port`, in order, each once."""
    found: dict[tuple[str, int], None] = {}
    if "://" in value:
        raise OptionError(
            option,
            f"{value[:80]!r} is a URL; give the address of a Kafka listener, host:port, without a scheme",
        )
    for part in filter(None, (part.strip() for part in value.split(","))):
        host, separator, port = part.rpartition(":")
        if not separator or part.endswith("]"):
            host, port = part, str(DEFAULT_PORT)
        host = host.strip("[]")
        if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
            raise OptionError(option, f"{part[:80]!r} is not an address; write host:port")
        found[host, int(port)] = None
    if not found:
        raise OptionError(option, "names no broker; write host:port")
    return tuple(found)


_LEVELS: Final[Mapping[str, Callable[[str, str], int]]] = {
    "gzip": _integer(-1, 9),
    "lz4": _integer(1, 17),
    "zstd": _integer(-131_072, 22),
}


def _compression_level(given: Mapping[str, str], compression_type: str) -> int | None:
    name = f"compression.{compression_type}.level"
    if compression_type not in _LEVELS or name not in given:
        return None
    level = _LEVELS[compression_type](PREFIX + name, given[name])
    if (compression_type, level) == ("gzip", 0):
        raise OptionError(PREFIX + name, "is 0; use 1 to 9, or -1 for gzip's own default")  # as Java's
    return None if (compression_type, level) == ("gzip", -1) else level


def _shared_setting(field: str, read: Callable[[str, str], object]) -> _Reader:
    return _Reader(field=field, read=read)


def _source_setting(field: str, read: Callable[[str, str], object]) -> _Reader:
    return _Reader(field=field, read=read, roles=(Role.SOURCE,))


def _sink_setting(field: str, read: Callable[[str, str], object]) -> _Reader:
    return _Reader(field=field, read=read, roles=(Role.SINK,))


_ISOLATION = {"read_committed": True, "read_uncommitted": False}
_READERS: Final[Mapping[str, _Reader]] = {
    "acks": _sink_setting("acks", _acks),
    "allow.auto.create.topics": _sink_setting("allow_auto_create_topics", _boolean),
    "batch.size": _sink_setting("batch_size", _integer(1)),
    "bootstrap.servers": _shared_setting("bootstrap_servers", _addresses),
    "check.crcs": _source_setting("", _always_true),
    "client.id": _shared_setting("client_id", _text),
    **{f"compression.{name}.level": _sink_setting("", read) for name, read in _LEVELS.items()},
    "compression.type": _sink_setting(
        "compression_type", _one_of({name: name for name in COMPRESSION_TYPES})
    ),
    "default.api.timeout.ms": _source_setting("default_api_timeout_ms", _integer(1)),
    "delivery.timeout.ms": _sink_setting("delivery_timeout_ms", _integer(1)),
    "enable.idempotence": _sink_setting("enable_idempotence", _boolean),
    "exclude.internal.topics": _source_setting("exclude_internal_topics", _boolean),
    "fetch.max.bytes": _source_setting("fetch_max_bytes", _integer(1)),
    "fetch.max.wait.ms": _source_setting("fetch_max_wait_ms", _integer(0)),
    "fetch.min.bytes": _source_setting("fetch_min_bytes", _integer(0)),
    "group.id": _source_setting("group_id", _text),
    "isolation.level": _source_setting("read_committed", _one_of(_ISOLATION)),
    "max.block.ms": _sink_setting("default_api_timeout_ms", _integer(1)),
    "max.in.flight.requests.per.connection": _sink_setting("max_in_flight", _integer(1, MAX_IN_FLIGHT)),
    "max.partition.fetch.bytes": _source_setting("max_partition_fetch_bytes", _integer(1)),
    "max.request.size": _sink_setting("max_request_size", _integer(1)),
    "metadata.max.age.ms": _shared_setting("metadata_max_age_ms", _integer(0)),
    "receive.buffer.bytes": _shared_setting("receive_buffer_bytes", _integer(-1)),
    "request.timeout.ms": _shared_setting("request_timeout_ms", _integer(1)),
    "retry.backoff.max.ms": _shared_setting("retry_backoff_max_ms", _integer(0)),
    "retry.backoff.ms": _shared_setting("retry_backoff_ms", _integer(0)),
    "send.buffer.bytes": _shared_setting("send_buffer_bytes", _integer(-1)),
    "socket.connection.setup.timeout.ms": _shared_setting("socket_connection_setup_timeout_ms", _integer(1)),
    "transaction.timeout.ms": _sink_setting("transaction_timeout_ms", _integer(1)),
    "transaction.two.phase.commit.enable": _sink_setting(
        "two_phase", _one_of({choice.value: choice for choice in TwoPhase})
    ),
}


def honoured_names() -> Iterable[str]:
    """Return the names that are read, for the test that compares the list with Java's."""
    return _READERS.keys() | READ
