"""The broker settings of share-partitions at their leaders: locks, deliveries, share sessions, dead letters.

Names, defaults and limits are Apache Kafka 4.3.1's; those of dead letters (KIP-1191) are 4.4's.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.config_def import ConfigScope, ConfigValue, at_least, between
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.settings.setting import BOOLEAN, INT, STRING, setting

_MAX_LOCK_MS: Final = 3_600_000

SHARE_PARTITION_SETTINGS: Final = (
    setting(
        "group.share.delivery.count.limit",
        INT,
        5,
        "The maximum number of deliveries of a record to a share group that does not acknowledge it.",
        between(2, 10),
    ),
    setting(
        "group.share.min.delivery.count.limit",
        INT,
        2,
        "The minimum limit of deliveries that can be set for a share group.",
        between(2, 5),
    ),
    setting(
        "group.share.max.delivery.count.limit",
        INT,
        10,
        "The maximum limit of deliveries that can be set for a share group.",
        between(5, 25),
    ),
    setting(
        "group.share.record.lock.duration.ms",
        INT,
        30_000,
        "How long a record that was delivered to a member of a share group is locked, so that no other "
        "member gets it.",
        between(1_000, _MAX_LOCK_MS),
    ),
    setting(
        "group.share.min.record.lock.duration.ms",
        INT,
        15_000,
        "The minimum lock duration that can be set for a share group.",
        between(1_000, 30_000),
    ),
    setting(
        "group.share.max.record.lock.duration.ms",
        INT,
        60_000,
        "The maximum lock duration that can be set for a share group.",
        between(30_000, _MAX_LOCK_MS),
    ),
    setting(
        "group.share.partition.max.record.locks",
        INT,
        2_000,
        "The maximum number of records of a partition that a share group has locked at the same time.",
        between(100, 10_000),
    ),
    setting(
        "group.share.min.partition.max.record.locks",
        INT,
        100,
        "The minimum limit of locked records of a partition that can be set for a share group.",
        between(100, 2_000),
    ),
    setting(
        "group.share.max.partition.max.record.locks",
        INT,
        4_000,
        "The maximum limit of locked records of a partition that can be set for a share group.",
        between(2_000, 10_000),
    ),
    setting(
        "group.share.max.share.sessions",
        INT,
        2_000,
        "The maximum number of share sessions of a node; each member of a share group has one at each node.",
        at_least(1),
    ),
    setting(
        "errors.deadletterqueue.topic.name.prefix",
        STRING,
        "dlq.",
        "The prefix that the name of a share group's dead-letter topic must have; empty for any name.",
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        False,
        "If true, the dead-letter topic that a share group names is created if it does not exist.",
        scope=ConfigScope.CLUSTER_WIDE,
    ),
)

# A setting and the setting that is its minimum, in the order of Kafka's checks.
_AT_LEAST: Final = (
    *(
        pair
        for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
        for pair in (
            (f"group.share.max.{what}", f"group.share.{what}"),
            (f"group.share.{what}", f"group.share.min.{what}"),
        )
    ),
    ("group.share.max.share.sessions", "group.share.max.size"),
)


def check_share_partition_settings(values: Mapping[str, ConfigValue]) -> None:
    """Raise INVALID_CONFIG, with Kafka's message, for a setting that contradicts others."""
    for name, minimum in _AT_LEAST:
        value, least = values[name], values.get(minimum)
        if isinstance(value, int) and isinstance(least, int) and value < least:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {minimum}")
