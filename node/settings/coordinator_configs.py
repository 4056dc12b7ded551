"""Converts the settings of a node to those of its coordinators; tools that replay their logs use it, too."""

from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.group_settings import assignor_names


def coordinator_config(config: BrokerConfig) -> CoordinatorConfig:
    """Return the settings of the group coordinators."""
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
    """Return the settings of the transaction coordinators."""
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
