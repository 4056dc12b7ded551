"""What a node is configured with: read from file, environment and command line, checked at start.

A setting is looked for in this order, the first that has it wins: `--override name=value`, the environment
(`OTTLA_LOG_SEGMENT_BYTES` for `log.segment.bytes`), `server.properties`, the default. Settings that were
changed while the cluster ran (AlterConfigs) go before all of these: those of one broker, then those of all.
`BrokerConfig` is frozen; a dynamic change makes a new one.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from logstore.config_def import ConfigScope, ConfigValue
from logstore.errors import ErrorCode, KafkaError
from logstore.log_config import check_compaction_lags, topic_defaults
from logstore.topic_partition import uuid_from_text
from node.broker_settings import BROKER_CONFIG_DEF, GROUP_CONFIG_DEF, listener_setting
from node.listener_settings import (
    Listener,
    check_served,
    parse_connection_limits,
    parse_listeners,
    parse_protocol_map,
)
from node.properties_file import MAX_PROPERTIES_BYTES, parse_properties
from node.settings_not_honoured import NOT_HONOURED

__all__ = ["BROKER_CONFIG_DEF", "GROUP_CONFIG_DEF", "BrokerConfig", "load_config", "parse_config"]

ENVIRONMENT_PREFIX: Final = "OTTLA_"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Every broker setting that is honoured, typed. Attribute and setting differ by '_' for '.' only.

    `values` has all of them by name, the `log.*` defaults of topics too. The texts are what was given where:
    DescribeConfigs shows them as synonyms.
    """

    node_id: int
    cluster_id: bytes | None
    broker_rack: str | None
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]  # empty: what the client reached
    inter_broker_listener_name: str
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    max_connections: int
    listener_max_connections: Mapping[str, int]  # listener.name.NAME.max.connections
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    queued_max_request_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool
    log_dirs: tuple[Path, ...]
    metadata_log_dir: Path
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    num_recovery_threads_per_data_dir: int
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_backoff_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    compression_type: str
    message_max_bytes: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    values: Mapping[str, ConfigValue] = field(repr=False)
    static_texts: Mapping[str, str] = field(repr=False)
    cluster_texts: Mapping[str, str] = field(repr=False)  # dynamic, of all brokers
    broker_texts: Mapping[str, str] = field(repr=False)  # dynamic, of this one
    warnings: tuple[str, ...] = ()  # what a node says once when it starts

    def with_dynamic(
        self, cluster_texts: Mapping[str, str], broker_texts: Mapping[str, str]
    ) -> "BrokerConfig":
        """This configuration under the settings that were changed while the cluster ran.

        One that this version of the software does not take (any more) is left out, and said so in `warnings`.
        """
        accepted: list[dict[str, str]] = []
        warnings = []
        for texts, lowest in (
            (cluster_texts, ConfigScope.CLUSTER_WIDE),
            (broker_texts, ConfigScope.PER_BROKER),
        ):
            good: dict[str, str] = {}
            for name, text in texts.items():
                try:
                    if BROKER_CONFIG_DEF.key(name).scope < lowest:
                        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} cannot be set so.")
                    BROKER_CONFIG_DEF.parse(name, text)
                    good[name] = text
                except KafkaError as error:
                    warnings.append(f"A dynamic setting is ignored: {error.detail}")
            accepted.append(good)
        return _build(self.static_texts, accepted[0], accepted[1], tuple(warnings))


def load_config(
    path: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration of a node; INVALID_CONFIG with one sentence if it cannot start with it.

    `overrides` are texts "name=value"; `environment` is the process's own unless given.
    """
    texts = {} if path is None else _read(path)
    texts |= _from_environment(os.environ if environment is None else environment)
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or not name.strip():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The override {override[:200]!r} is not name=value.")
        texts[name.strip()] = value.strip()
    return parse_config(texts)


def parse_config(texts: Mapping[str, str]) -> BrokerConfig:
    """The configuration that these settings make over the defaults; INVALID_CONFIG if there is none."""
    warnings = []
    known: dict[str, str] = {}
    for name, text in texts.items():
        if name in BROKER_CONFIG_DEF:
            known[name] = text
        elif name in NOT_HONOURED:
            warnings.append(f"The setting {name} of Apache Kafka has no effect here.")
        else:
            warnings.append(f"The setting {name[:200]} is unknown and has no effect.")
    return _build(known, {}, {}, tuple(warnings))


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return parse_properties(file.read(MAX_PROPERTIES_BYTES + 1))
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"The configuration {path} cannot be read: {error.strerror}."
        ) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings by their names in capitals; other variables with the prefix belong to other tools."""
    names = {
        name.replace(".", "_").upper(): name for name in (*BROKER_CONFIG_DEF.keys, *sorted(NOT_HONOURED))
    }
    found: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        name = names.get(variable.removeprefix(ENVIRONMENT_PREFIX))
        if name is not None and variable.startswith(ENVIRONMENT_PREFIX):
            found[name] = value
    return found


def _build(
    static_texts: Mapping[str, str],
    cluster_texts: Mapping[str, str],
    broker_texts: Mapping[str, str],
    warnings: tuple[str, ...],
) -> BrokerConfig:
    texts = {**static_texts, **cluster_texts, **broker_texts}
    values = BROKER_CONFIG_DEF.parse_all(texts)
    # `Any` because the table, and not the type checker, knows the type behind each name.
    typed: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    protocols = parse_protocol_map(typed["listener_security_protocol_map"])
    controllers = {name.strip().upper() for name in typed["controller_listener_names"]}
    listeners = _without(
        parse_listeners(typed["listeners"], "listeners", _spare(protocols, controllers)), controllers
    )
    advertised = _without(
        parse_listeners(
            typed["advertised_listeners"] or (), "advertised.listeners", _spare(protocols, controllers)
        ),
        controllers,
    )
    if not listeners:
        raise _invalid("listeners", "no listener for clients is left.")
    check_served(listeners)
    _check_advertised(listeners, advertised)
    if controllers:
        warnings = (*warnings, "Listeners in controller.listener.names are not opened: none is needed.")
    special: dict[str, Any] = {
        "node_id": _node_id(static_texts, typed),
        "cluster_id": None if typed["cluster_id"] is None else uuid_from_text(typed["cluster_id"]),
        "listeners": listeners,
        "advertised_listeners": advertised,
        "inter_broker_listener_name": _inter_broker_listener(typed, listeners),
        "max_connections_per_ip_overrides": MappingProxyType(
            parse_connection_limits(typed["max_connections_per_ip_overrides"])
        ),
        "log_dirs": _directories(typed["log_dirs"] or typed["log_dir"]),
        "listener_max_connections": MappingProxyType(_of_listeners("max.connections", texts)),
    }
    special["metadata_log_dir"] = (
        Path(typed["metadata_log_dir"]) if typed["metadata_log_dir"] else special["log_dirs"][0]
    )
    if set(typed["process_roles"]) != {"broker", "controller"}:
        raise _invalid("process.roles", "a node of this cluster is always both broker and controller.")
    if typed["group_max_session_timeout_ms"] < typed["group_min_session_timeout_ms"]:
        raise _invalid("group.max.session.timeout.ms", "it must not be below group.min.session.timeout.ms.")
    check_compaction_lags(topic_defaults(values))
    return BrokerConfig(
        **{name: value for name, value in typed.items() if name in _PLAIN_FIELDS},
        **special,
        values=MappingProxyType(values),
        static_texts=MappingProxyType(dict(static_texts)),
        cluster_texts=MappingProxyType(dict(cluster_texts)),
        broker_texts=MappingProxyType(dict(broker_texts)),
        warnings=warnings,
    )


def _of_listeners(setting: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of a setting that single listeners have, by listener."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        listener = listener_setting(name)
        if listener is not None and listener[1] == setting:
            found[listener[0]] = BROKER_CONFIG_DEF.parse(name, text)
    return found


_SPECIAL_FIELDS: Final = {
    "listener_max_connections",
    "node_id",
    "cluster_id",
    "listeners",
    "advertised_listeners",
    "inter_broker_listener_name",
    "max_connections_per_ip_overrides",
    "log_dirs",
    "metadata_log_dir",
}
_PLAIN_FIELDS: Final = frozenset(BrokerConfig.__dataclass_fields__) - _SPECIAL_FIELDS


def _spare(protocols: Mapping[str, str], controllers: set[str]) -> dict[str, str]:
    """Controllers' listeners need no entry in the protocol map: nobody opens them."""
    return {**dict.fromkeys(controllers, "PLAINTEXT"), **protocols}


def _without(listeners: tuple[Listener, ...], controllers: set[str]) -> tuple[Listener, ...]:
    return tuple(listener for listener in listeners if listener.name not in controllers)


def _check_advertised(listeners: Sequence[Listener], advertised: Sequence[Listener]) -> None:
    names = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in names:
            raise _invalid("advertised.listeners", f"{listener.name} is not among listeners.")
        if listener.host in ("", "0.0.0.0", "::"):
            raise _invalid("advertised.listeners", f"{listener.name} has no address that a client can use.")


def _node_id(static_texts: Mapping[str, str], typed: Mapping[str, Any]) -> int:
    node_id, broker_id = int(typed["node_id"]), int(typed["broker_id"])
    if broker_id < 0:
        return node_id
    if "node.id" in static_texts and broker_id != node_id:
        raise _invalid("broker.id", f"it is {broker_id} and node.id is {node_id}; give one of them.")
    return broker_id


def _inter_broker_listener(typed: Mapping[str, Any], listeners: Sequence[Listener]) -> str:
    name: str | None = typed["inter_broker_listener_name"]
    if name is None:
        protocol = typed["security_inter_broker_protocol"]
        found = [listener.name for listener in listeners if listener.security_protocol == protocol]
        if not found:
            raise _invalid("security.inter.broker.protocol", f"no listener speaks {protocol}.")
        return protocol if protocol in found else found[0]
    if name.upper() not in {listener.name for listener in listeners}:
        raise _invalid("inter.broker.listener.name", f"{name} is not among listeners.")
    return name.upper()


def _directories(names: Sequence[str]) -> tuple[Path, ...]:
    directories = tuple(Path(name) for name in names)
    if not directories:
        raise _invalid("log.dirs", "it must name a directory.")
    if len({directory.resolve() for directory in directories}) != len(directories):
        raise _invalid("log.dirs", "it names a directory twice.")
    return directories


def _invalid(setting: str, problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {setting}: {problem}")
