"""The settings of a node as its parts name them."""

from collections.abc import Callable

from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.node.net.connection_quota import ConnectionLimits
from ottla.node.quota.client_quotas import ClientQuotas
from ottla.node.quota.connection_rates import ConnectionRates, RateLimits
from ottla.node.quota.rate import Windows
from ottla.node.replica.follower_fetcher import FetcherSettings
from ottla.node.replica.follower_state import FetchBounds
from ottla.node.security.sasl.failed_logins import FailureAllowance
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.group_settings import assignor_names


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """How many connections are let in."""
    return ConnectionLimits(
        max_connections=config.max_connections,
        listener_max_connections=config.listener_max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
    )


def failure_allowance(config: BrokerConfig) -> FailureAllowance:
    """Return how many logins may fail before their answers are delayed."""
    return FailureAllowance(
        burst=config.ottla_failed_logins_burst,
        per_second=config.ottla_failed_logins_rate,
        exempt=config.ottla_failed_logins_exempt,
    )


def rate_limits(config: BrokerConfig) -> RateLimits:
    """How fast connections are let in."""
    return RateLimits(
        max_connection_creation_rate=config.max_connection_creation_rate,
        listener_max_connection_creation_rate=config.listener_max_connection_creation_rate,
    )


def connection_rates(config: BrokerConfig, now_ms: Callable[[], int]) -> ConnectionRates:
    """Return what measures connections; no address has a quota yet."""
    rates = ConnectionRates(_windows(config), now_ms)
    rates.limit(rate_limits(config))
    return rates


def _windows(config: BrokerConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000)


def client_quotas(config: BrokerConfig, now_ms: Callable[[], int]) -> ClientQuotas:
    """Return what measures clients; nobody has a quota yet."""
    return ClientQuotas(
        _windows(config),
        Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1_000),
        now_ms,
    )


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    return FetcherSettings(
        bounds=FetchBounds(
            max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_wait_ms=config.replica_fetch_wait_max_ms,
        ),
        backoff_ms=config.replica_fetch_backoff_ms,
        socket_timeout_ms=config.replica_socket_timeout_ms,
    )


def coordinator_config(config: BrokerConfig) -> CoordinatorConfig:
    """What the coordinators of groups need to know of the configuration."""
    return CoordinatorConfig(
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_max_size=config.group_max_size,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        group_consumer_assignors=assignor_names(config.group_consumer_assignors),
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        group_share_session_timeout_ms=config.group_share_session_timeout_ms,
        group_share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        group_share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        group_share_max_size=config.group_share_max_size,
        group_share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        offsets_commit_timeout_ms=config.offsets_commit_timeout_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        max_batch_bytes=config.message_max_bytes,
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """What the coordinators of transactions need to know of the configuration."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            config.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
        transaction_two_phase_commit_enable=config.transaction_two_phase_commit_enable,
        ottla_transaction_hold_ms=config.ottla_transaction_hold_ms,
        max_batch_bytes=config.message_max_bytes,
    )


def share_coordinator_config(config: BrokerConfig) -> ShareCoordinatorConfig:
    """Return the settings of the share coordinators."""
    return ShareCoordinatorConfig(
        share_coordinator_snapshot_update_records_per_snapshot=(
            config.share_coordinator_snapshot_update_records_per_snapshot
        ),
        share_coordinator_state_topic_prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        share_coordinator_cold_partition_snapshot_interval_ms=(
            config.share_coordinator_cold_partition_snapshot_interval_ms
        ),
        max_batch_bytes=config.message_max_bytes,
    )
