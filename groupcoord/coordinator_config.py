"""The settings that a group coordinator obeys, and Ottla's own limits.

Attribute names are Kafka's broker settings with underscores; `node` fills them in from its configuration.
"""

from dataclasses import dataclass
from enum import Enum

# A pending member holds a few hundred bytes until its session timeout; ten thousand consumers that start at
# the same moment are the most that is plausible. Members beyond that get GROUP_MAX_SIZE_REACHED.
MAX_PENDING_MEMBERS = 10_000
# Protocols that one member may offer; real clients offer one to three.
MAX_PROTOCOLS = 100
# The most characters of a client id or an instance id that go into a member id; topic names have at most 249.
MAX_MEMBER_NAME_CHARS = 255
# The memory of a group without members or offsets, as measured. A shard with the maximum number of groups
# rejects new ones (COORDINATOR_NOT_AVAILABLE).
GROUP_BYTES = 2_000
MAX_GROUPS_PER_SHARD = 200_000
# The most bytes of all members in a shard's groups, pending ones included: room for 14,000 members, or for 24
# groups as large as a record can be.
MAX_MEMBER_BYTES_PER_SHARD = 32 * 1024 * 1024
# A value of `GroupConfig.offsets_retention_ms`: the group's offsets never expire.
KEEPS_OFFSETS = -1
# Offsets looked at in one slice of the expiry, so that a slice takes about a millisecond.
EXPIRY_SLICE_OFFSETS = 1_000


class MigrationPolicy(Enum):
    """The directions in which groups with members may change their protocol, by the names in the setting."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"  # from the classic to the consumer protocol
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Kafka's settings of the group coordinator, with Kafka's defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096  # in fact characters, as in Kafka
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000
    # Members and partitions of a group beyond which its target is made in a thread: on the loop this many
    # take some 10 ms.
    largest_inline_target: int = 10_000
    # Partitions and subscriptions of a share group beyond which its target is made in a thread, for the same
    # 10 ms.
    largest_inline_share_target: int = 1_000
    # Members that wait in their first join have no session yet; they are removed after this long.
    new_member_join_timeout_ms: int = 5 * 60_000
    # The largest batch that the partition of __consumer_offsets takes (its max.message.bytes).
    max_batch_bytes: int = 1_048_588

    @property
    def share_initialize_retry_interval_ms(self) -> int:
        """Return the time after which a request to the share coordinators is sent again: at least that of a
        commit.
        """
        return max(self.group_share_initialize_retry_interval_ms, self.offsets_commit_timeout_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one group: its own, or the broker's."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    consumer_assignment_interval_ms: int
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    share_assignment_interval_ms: int
    offsets_retention_ms: int  # KEEPS_OFFSETS: for ever


def default_group_config(config: CoordinatorConfig) -> GroupConfig:
    """Return the settings of a group that has none of its own."""
    return GroupConfig(
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        share_session_timeout_ms=config.group_share_session_timeout_ms,
        share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        offsets_retention_ms=config.offsets_retention_ms,
    )
