"""The configuration of a node: read from file, environment and command line, and checked at start.

The first of these that has a setting wins: `--override name=value`, the environment
(`OTTLA_LOG_SEGMENT_BYTES` for `log.segment.bytes`, `OTTLA_REST_LISTENERS` for `ottla.rest.listeners`),
`server.properties`, the default. Dynamic settings (AlterConfigs), changed while the cluster ran, win over all
of these, and those of one broker over those of all brokers.

A `BrokerConfig` is frozen; a dynamic change makes a new one.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from ottla.logstore.words.config_def import ConfigScope, ConfigValue
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.old_names import OLD_BROKER_NAMES, old_name_hint
from ottla.logstore.words.topic_partition import uuid_from_text
from ottla.metadata_raft.acl_set import AuthorizerSettings
from ottla.node.settings.audit_settings import AuditFileSettings, audit_file_settings
from ottla.node.settings.authorization_settings import (
    authorizer_settings,
)
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF, check_log_settings, listener_setting
from ottla.node.settings.cluster_settings import AUTO, NODES_PER_HOST, QuorumVoter
from ottla.node.settings.failed_login_settings import exempt_warnings, parse_exempt
from ottla.node.settings.first_users import FirstUser, parse_first_users
from ottla.node.settings.group_settings import check_group_settings, within_limits
from ottla.node.settings.invalid_setting import invalid
from ottla.node.settings.listener_settings import Listener, parse_connection_limits, parse_protocol_map
from ottla.node.settings.open_listeners import is_only_controller, open_listeners, secured_listeners
from ottla.node.settings.properties_file import MAX_PROPERTIES_BYTES, parse_properties
from ottla.node.settings.quorum_role import quorum_role
from ottla.node.settings.rest_security_settings import RestLogins, rest_logins, rest_security
from ottla.node.settings.rest_settings import (
    REST_LISTENERS,
    Network,
    RestAddress,
    parse_advertised_rest_listener,
    parse_allowed_hosts,
    parse_probe_listener,
    parse_rest_listeners,
    parse_trusted_proxies,
)
from ottla.node.settings.sasl_settings import ListenerSasl, NodeLogin
from ottla.node.settings.secure_settings import (
    SECURE,
    SECURE_REST_LISTENERS,
    SecureFiles,
    SecureSecrets,
    refuse_contradictions,
    secure_directory,
    secured,
)
from ottla.node.settings.security_settings import ListenerSecurity
from ottla.node.settings.setting import Typed
from ottla.node.settings.settings_not_honoured import NOT_HONOURED
from ottla.node.settings.share_partition_settings import check_share_partition_settings
from ottla.node.settings.unhonoured_security import Honoured, plain_name, refuse_unhonoured

__all__ = ["BROKER_CONFIG_DEF", "BrokerConfig", "load_config", "parse_config", "refuse_unknown"]

ENVIRONMENT_PREFIX: Final = "OTTLA_"
# The similarity (by difflib) from which on a setting is suggested for an unknown name. Environment variables
# share a prefix, and those of other tools have it, too (OTTLA_HOME), so they must be closer.
NEAR: Final = 0.75
NEAR_VARIABLE: Final = 0.9
# Sizes of pools that a dynamic change may at most halve or double, as in Apache Kafka.
RESIZED_STEPWISE: Final = ("log.cleaner.threads", "num.replica.fetchers")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """All broker settings that a node honours, typed. Attributes have the settings' names, with '_' for '.'.

    `values` has all of them by name, the `log.*` defaults of topics too. The `..._texts` are the texts that
    were set at each level: DescribeConfigs shows them as synonyms.
    """

    node_id: int
    cluster_id: bytes | None
    broker_rack: str | None
    pid_file: Path | None
    ottla_log_format: str  # of the process's own log: text or json
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]  # empty: the address that the client connected to
    advertised_controllers: tuple[Listener, ...]  # empty: the addresses of controller_listeners
    inter_broker_listener_name: str  # that other nodes connect to
    is_broker: bool  # false if it is only a controller
    is_voter: bool  # it votes in the metadata quorum, alone or with others
    may_vote: bool  # it can become a voter later: it has a controller listener
    controller_listeners: tuple[Listener, ...]
    controller_quorum_voters: tuple[QuorumVoter, ...]  # empty: this node alone, or the quorum that it joins
    controller_quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    controller_quorum_auto_join_enable: bool
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    cluster_secret: str | None = field(repr=False)
    listener_security: Mapping[str, ListenerSecurity]  # of each listener with TLS, controller listeners too
    first_users: tuple[FirstUser, ...]  # ottla.add.scram
    secure_files: SecureFiles | None  # of a node with ottla.secure=true
    ottla_secure_hosts: tuple[str, ...]
    listener_sasl: Mapping[str, ListenerSasl]  # of each listener whose clients log in
    authorizer: AuthorizerSettings | None  # None: every client may do everything
    audit_file: AuditFileSettings | None  # None: the audit log has no file
    controller_security: ListenerSecurity | None  # of connections to controllers; None: PLAINTEXT
    controller_sasl: Mapping[str, ListenerSasl]  # of each controller listener with SASL
    controller_login: NodeLogin | None  # of this node at controllers
    # For connections to nodes with TLS. The inter-broker listener of this node itself may have none.
    peer_security: ListenerSecurity | None
    peer_login: NodeLogin | None  # of this node at nodes whose inter-broker listener has SASL
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    log_dir_failure_timeout_ms: int
    controlled_shutdown_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_interval_ms: int
    num_replica_fetchers: int
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    replica_selector_class: str | None
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    ottla_balance_enable: bool
    ottla_balance_requested: bool
    ottla_balance_interval_ms: int
    ottla_balance_max_bytes_per_second: int
    ottla_balance_concurrent_moves: int
    ottla_balance_exclude_brokers: tuple[str, ...]
    ottla_balance_exclude_leaders: tuple[str, ...]
    replica_alter_log_dirs_io_max_bytes_per_second: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    socket_send_buffer_bytes: int
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    ottla_failed_logins_burst: int
    ottla_failed_logins_rate: int
    ottla_failed_logins_exempt: tuple[Network, ...]
    ottla_anonymous_administrators: str
    max_connections: int
    listener_max_connections: Mapping[str, int]  # listener.name.NAME.max.connections
    max_connection_creation_rate: int
    listener_max_connection_creation_rate: Mapping[str, int]  # of single listeners
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    queued_max_request_bytes: int
    ottla_memory_max_bytes: int
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
    ottla_log_scrub_interval_ms: int
    ottla_log_scrub_bytes_per_second: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_share_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_assignment_interval_ms: int
    group_share_max_size: int
    group_share_initialize_retry_interval_ms: int
    ottla_group_heartbeat_hold_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_two_phase_commit_enable: bool
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    group_share_max_share_sessions: int
    errors_deadletterqueue_topic_name_prefix: str
    errors_deadletterqueue_auto_create_topics_enable: bool
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_write_timeout_ms: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    unstable_api_versions_enable: bool
    ottla_transaction_hold_ms: int
    ottla_rest_listeners: tuple[RestAddress, ...]  # empty: no REST API
    rest_listeners_are_named: bool  # if their port is in use, the node does not start
    ottla_rest_advertised_listener: RestAddress | None
    ottla_rest_allowed_hosts: tuple[str, ...]
    rest_security: ListenerSecurity | None  # None: no address of the REST API has TLS
    rest_logins: RestLogins
    ottla_probe_listener: RestAddress | None  # None: probes have no port of their own
    ottla_rest_request_max_bytes: int
    ottla_rest_reads_max: int
    ottla_rest_consumers_max: int
    ottla_rest_consumers_max_per_address: int
    ottla_rest_consumers_timeout_ms: int
    ottla_rest_reads_max_per_address: int
    ottla_rest_reads_waiting_max: int
    ottla_rest_reads_waiting_max_per_address: int
    ottla_rest_tails_max: int
    ottla_rest_tails_max_per_address: int
    ottla_rest_trusted_proxies: tuple[Network, ...]
    telemetry_max_bytes: int
    ottla_metrics_all: bool
    ottla_metrics_topics_max: int
    ottla_metrics_partitions_max: int
    ottla_metrics_group_offsets_max: int
    ottla_metrics_groups_max: int
    ottla_metrics_client_series_max: int
    ottla_metrics_bytes_max: int
    ottla_history_interval_ms: int
    ottla_metrics_loop_look_ms: int
    ottla_metrics_exporters: tuple[str, ...]
    compression_type: str
    message_max_bytes: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    values: Mapping[str, ConfigValue] = field(repr=False)
    static_texts: Mapping[str, str] = field(repr=False)
    cluster_texts: Mapping[str, str] = field(repr=False)  # dynamic, for all brokers
    broker_texts: Mapping[str, str] = field(repr=False)  # dynamic, for this broker
    warnings: tuple[str, ...] = ()  # logged once at the start

    def with_dynamic(
        self, cluster_texts: Mapping[str, str], broker_texts: Mapping[str, str]
    ) -> "BrokerConfig":
        """Return this configuration with dynamic settings over it.

        A setting that this version of the software does not accept is left out, with a line in `warnings`.
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
                        raise KafkaError(
                            ErrorCode.INVALID_CONFIG,
                            f"{name} cannot be set per broker or cluster at run time.",
                        )
                    BROKER_CONFIG_DEF.parse(name, text)
                    good[name] = within_limits(self.values, name, text)
                    if good[name] != text:
                        warnings.append(f"{name}={text} is no longer allowed; {good[name]} is used instead.")
                except KafkaError as error:
                    warnings.append(f"A dynamic setting is ignored: {error.detail}")
            accepted.append(good)
        # Each is valid by itself, but maybe not together with the others of this node.
        for cluster, broker in ((accepted[0], accepted[1]), (accepted[0], {}), ({}, {})):
            try:
                return _build(self.static_texts, cluster, broker, tuple(warnings))
            except KafkaError as error:
                left_out = broker or cluster
                warnings.append(
                    f"Dynamic settings are ignored ({', '.join(sorted(left_out))}): {error.detail}"
                )
        raise AssertionError("a node runs with its own settings")

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and for controllers."""
        return tuple(dict.fromkeys((*self.listeners, *self.controller_listeners)))

    def is_set(self, name: str) -> bool:
        """Return True if the setting was set at any level; otherwise it has its default."""
        return any(name in texts for texts in (self.static_texts, self.cluster_texts, self.broker_texts))

    def check_dynamic(self, texts: Mapping[str, str]) -> None:
        """Raise INVALID_CONFIG if these dynamic settings contradict this node's own."""
        _build(self.static_texts, texts, {}, ())

    def check_resizes(self, cluster_texts: Mapping[str, str], broker_texts: Mapping[str, str]) -> None:
        """Raise INVALID_REQUEST if dynamic settings would more than halve or double the size of a pool.

        The limit is Apache Kafka's; the pools are those of `RESIZED_STEPWISE` on this node.
        """
        texts = {**self.static_texts, **cluster_texts, **broker_texts}
        for name in RESIZED_STEPWISE:
            key, current = BROKER_CONFIG_DEF.keys[name], self.values[name]
            try:
                new = key.parse(texts[name]) if name in texts else key.default
            except KafkaError:
                continue  # rejected by the check of all settings
            assert isinstance(new, int) and isinstance(current, int)
            if not current // 2 <= new <= current * 2:
                bound = "be at least half" if new < current else "not be greater than double"
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Dynamic thread count update validation failed for {name}={new},"
                    f" value should {bound} the current value {current}",
                )


def load_config(
    path: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Read and check the configuration of a node; INVALID_CONFIG with one sentence if it is not valid.

    `overrides` are texts "name=value"; `environment` is the process's own by default.
    """
    environment = os.environ if environment is None else environment
    texts = gathered_settings(path, overrides=overrides, environment=environment)
    return parse_config(texts, warnings=_misspelt_variables(environment))


def gathered_settings(
    path: Path | None, *, overrides: Sequence[str], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of file, environment and overrides together, not parsed yet."""
    environment = os.environ if environment is None else environment
    texts = {} if path is None else _read(path)
    texts |= _from_environment(environment)
    given = parse_overrides(overrides)
    refuse_unknown(given)
    return texts | given


def is_given(name: str, overrides: Sequence[str]) -> bool:
    """Return True if a setting is in the environment or in overrides; a file is not read."""
    return environment_name(name) in os.environ or any(
        one.partition("=")[0].strip() == name for one in overrides
    )


def is_secured(texts: Mapping[str, str]) -> bool:
    """Return True if `ottla.secure` is set to true; INVALID_CONFIG if it is neither true nor false."""
    return SECURE in texts and bool(BROKER_CONFIG_DEF.parse(SECURE, texts[SECURE]))


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Parse texts "name=value"; the last of equal names wins. INVALID_CONFIG for other texts."""
    texts: dict[str, str] = {}
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or not name.strip():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The override {override[:200]!r} is not name=value.")
        texts[name.strip()] = value.strip()
    return texts


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise INVALID_CONFIG for the first name that is not a setting, and suggest the most similar one.

    This is for settings given to one start, such as overrides. Unknown names in a file only cause warnings,
    unless they are old ones: the file may be for another version, or have settings of a plugin of Kafka.
    """
    for name in names:
        _refuse_old(name)
        if name not in BROKER_CONFIG_DEF and not _is_kafkas_own(name):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown setting {name[:200]}.{_suggestion(name)}")


def parse_config(texts: Mapping[str, str], *, warnings: Sequence[str] = ()) -> BrokerConfig:
    """Return the configuration that results from settings and defaults; INVALID_CONFIG if it is not valid.

    Its warnings are `warnings` and one for each setting that has no effect.
    """
    all_warnings = list(warnings)
    known: dict[str, str] = {}
    for name, text in texts.items():
        _refuse_old(name)
        if name in BROKER_CONFIG_DEF:
            known[name] = text
        elif _is_kafkas_own(name):
            all_warnings.append(f"The Apache Kafka setting {name} is not supported and has no effect.")
        else:
            all_warnings.append(f"The setting {name[:200]} is unknown and has no effect.{_suggestion(name)}")
    if known.get(NODES_PER_HOST, "1") not in ("1", AUTO):
        all_warnings.append(f"{NODES_PER_HOST} has no effect here: only `ottla start` runs several nodes.")
    known = _with_secure_settings(known)
    config = _build(known, {}, {}, tuple(all_warnings))
    refuse_unhonoured(texts, _honoured(config))
    if config.secure_files is not None:
        refuse_contradictions(config.values, config.all_listeners, config.ottla_rest_listeners)
    return config


def _with_secure_settings(texts: dict[str, str]) -> dict[str, str]:
    """Return settings with those that `ottla.secure` implies, as far as its files exist."""
    if not is_secured(texts):
        return texts
    values = BROKER_CONFIG_DEF.parse_all(texts)
    files = secure_directory(values)
    properties, secret = _content(files.client_properties), _content(files.cluster_secret)
    secrets = SecureSecrets(
        None if properties is None else parse_properties(properties, str(files.client_properties)),
        None if secret is None else secret.decode(errors="replace").strip(),
    )
    return secured(texts, values, files, secrets)


def _content(path: Path) -> bytes | None:
    """Return the content of a small file, None if it does not exist; INVALID_CONFIG if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_PROPERTIES_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{path} of {SECURE} cannot be read: {error.strerror}."
        ) from None


def _honoured(config: BrokerConfig) -> Honoured:
    """Return the parts of a node of this configuration that settings of security can apply to."""
    open_ones = config.all_listeners
    names = (
        *(one.name for one in open_ones),
        *(
            str(one).strip().upper()
            for one in cast("Sequence[str]", config.values["controller.listener.names"])
        ),
        *parse_protocol_map(cast("str", config.values["listener.security.protocol.map"])),
    )
    of_sasl = {**config.listener_sasl, **config.controller_sasl}
    return Honoured(
        listeners=frozenset(names),
        with_tls=config.listener_security.keys(),
        with_ssl=config.listener_security.keys() - of_sasl.keys(),
        mechanisms={name: one.mechanisms.keys() for name, one in of_sasl.items()},
        controllers_log_in=bool(config.controller_sasl),
        rest_has_tls=config.rest_security is not None,
        rest_takes_tokens=config.rest_logins.tokens is not None,
        has_authorizer=config.authorizer is not None,
    )


def _is_kafkas_own(name: str) -> bool:
    """Return True for a setting of Apache Kafka, with or without a listener, that Ottla does not have."""
    return plain_name(name) in NOT_HONOURED


def _refuse_old(name: str) -> None:
    """Raise INVALID_CONFIG, with the current name, for a setting of an older Apache Kafka."""
    if (problem := old_name_hint(name, OLD_BROKER_NAMES)) is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The setting {name} {problem}.")


def _suggestion(name: str) -> str:
    """Return a question that suggests the setting most similar to an unknown name, "" if none is close."""
    near = get_close_matches(name[:200], BROKER_CONFIG_DEF.keys, n=1, cutoff=NEAR)
    return f" Did you mean {near[0]}?" if near else ""


def _misspelt_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that is almost that of a setting, such as OTTLA_LOG_DIR_S."""
    names = [environment_name(name) for name in (*BROKER_CONFIG_DEF.keys, *sorted(NOT_HONOURED))]
    known = frozenset(names)
    return [
        f"The environment variable {variable[:200]} is unknown and has no effect. Did you mean {near[0]}?"
        for variable in sorted(environment)
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in known
        if (near := get_close_matches(variable[:200], names, n=1, cutoff=NEAR_VARIABLE))
    ]


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return parse_properties(file.read(MAX_PROPERTIES_BYTES + 1), f"The configuration file {path}")
    except OSError as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"The configuration file {path} cannot be read: {error.strerror}."
        ) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in the environment; other variables with the prefix belong to other tools."""
    names = {environment_name(name): name for name in (*BROKER_CONFIG_DEF.keys, *sorted(NOT_HONOURED))}
    return {
        name: value
        for variable, value in sorted(environment.items())
        if (name := names.get(variable)) is not None
    }


def environment_name(setting: str) -> str:
    """Return the variable of a setting; for `ottla.` settings the prefix is not repeated."""
    return ENVIRONMENT_PREFIX + setting.removeprefix("ottla.").replace(".", "_").upper()


def _build(
    static_texts: Mapping[str, str],
    cluster_texts: Mapping[str, str],
    broker_texts: Mapping[str, str],
    warnings: tuple[str, ...],
) -> BrokerConfig:
    texts = {**static_texts, **cluster_texts, **broker_texts}
    values = BROKER_CONFIG_DEF.parse_all(texts)
    # `Any` because the table, and not the type checker, knows the type of each name.
    typed: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    found, node_id = open_listeners(typed), _node_id(static_texts, typed)
    quorum = quorum_role(node_id, typed, found.of_controllers)
    secure_files = secure_directory(values) if typed["ottla_secure"] else None
    own_keystore = None if secure_files is None else str(secure_files.node(node_id))
    security = secured_listeners(found, quorum.listeners, typed, values, texts, own_keystore)
    of_rest, rest_warning = _of_rest(static_texts, typed, values, texts)
    exempt = parse_exempt(typed["ottla_failed_logins_exempt"])
    warnings = (
        *warnings,
        *quorum.warnings,
        *security.warnings,
        *rest_warning,
        *exempt_warnings(exempt),
    )
    log_dirs = _directories(typed["log_dirs"] or typed["log_dir"])
    special: dict[str, Any] = {
        "node_id": node_id,
        "broker_rack": typed["broker_rack"] or None,  # a pod on a host without a rack gets an empty text
        "is_broker": not is_only_controller(typed),
        "is_voter": quorum.is_voter,
        "may_vote": not quorum.is_voter and bool(quorum.listeners),
        "controller_listeners": quorum.listeners,
        "controller_quorum_voters": quorum.voters,
        "controller_quorum_bootstrap_servers": quorum.bootstrap_servers,
        "cluster_id": None if typed["cluster_id"] is None else uuid_from_text(typed["cluster_id"]),
        "listeners": found.of_clients,
        "advertised_listeners": found.advertised,
        "advertised_controllers": found.advertised_controllers,
        "inter_broker_listener_name": found.inter_broker,
        "max_connections_per_ip_overrides": MappingProxyType(
            parse_connection_limits(typed["max_connections_per_ip_overrides"])
        ),
        "log_dirs": log_dirs,
        "metadata_log_dir": Path(typed["metadata_log_dir"]) if typed["metadata_log_dir"] else log_dirs[0],
        "pid_file": Path(typed["pid_file"]) if typed["pid_file"] else None,
        "listener_max_connections": MappingProxyType(_of_listeners("max.connections", texts)),
        "listener_max_connection_creation_rate": MappingProxyType(
            _of_listeners("max.connection.creation.rate", texts)
        ),
        "first_users": parse_first_users(typed["ottla_add_scram"]),
        "secure_files": secure_files,
        "authorizer": authorizer_settings(values),
        "audit_file": audit_file_settings(values),
        **{
            name: MappingProxyType(part) if isinstance(part, dict) else part
            for name, part in security._asdict().items()
        },
        **of_rest,
        "ottla_failed_logins_exempt": exempt,
    }
    check_group_settings(values)
    check_share_partition_settings(values)
    check_log_settings(values)
    if not typed["max_connections_per_ip"] and not special["max_connections_per_ip_overrides"]:
        raise invalid(
            "max.connections.per.ip",
            "with 0, max.connections.per.ip.overrides must name the addresses that may connect.",
        )
    fields = BrokerConfig.__dataclass_fields__
    return BrokerConfig(
        **{name: value for name, value in typed.items() if name in fields and name not in special},
        **special,
        values=MappingProxyType(values),
        static_texts=MappingProxyType(dict(static_texts)),
        cluster_texts=MappingProxyType(dict(cluster_texts)),
        broker_texts=MappingProxyType(dict(broker_texts)),
        warnings=warnings,
    )


def _of_rest(
    static_texts: Mapping[str, str],
    typed: Typed,
    values: Mapping[str, ConfigValue],
    texts: Mapping[str, str],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of BrokerConfig for the REST API and for probes, and their warnings."""
    addresses = parse_rest_listeners(typed["ottla_rest_listeners"])
    security = rest_security(addresses, values, texts)
    logins = rest_logins(addresses, security, values)
    fields = {
        "ottla_rest_listeners": addresses,
        "rest_security": security,
        "rest_logins": logins,
        "rest_listeners_are_named": REST_LISTENERS in static_texts
        and not (typed["ottla_secure"] and static_texts[REST_LISTENERS] == SECURE_REST_LISTENERS),
        "ottla_rest_advertised_listener": parse_advertised_rest_listener(
            typed["ottla_rest_advertised_listener"]
        ),
        "ottla_rest_allowed_hosts": parse_allowed_hosts(typed["ottla_rest_allowed_hosts"]),
        "ottla_rest_trusted_proxies": parse_trusted_proxies(typed["ottla_rest_trusted_proxies"]),
        "ottla_probe_listener": parse_probe_listener(typed["ottla_probe_listener"]),
    }
    return fields, (logins.warning,) if logins.warning else ()


def _of_listeners(setting: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a setting that are set for single listeners, by listener."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        listener = listener_setting(name)
        if listener is not None and listener[1] == setting:
            found[listener[0]] = BROKER_CONFIG_DEF.parse(name, text)
    return found


def _node_id(static_texts: Mapping[str, str], typed: Typed) -> int:
    node_id, broker_id = int(typed["node_id"]), int(typed["broker_id"])
    if broker_id < 0:
        return node_id
    if "node.id" in static_texts and broker_id != node_id:
        raise invalid("broker.id", f"it is {broker_id}, but node.id is {node_id}; remove one of them.")
    return broker_id


def _directories(names: Sequence[str]) -> tuple[Path, ...]:
    directories = tuple(Path(name) for name in names)
    if len({directory.resolve() for directory in directories}) != len(directories):
        raise invalid("log.dirs", "it names the same directory twice.")
    return directories
