"""The broker settings of the share coordinator, which keeps the state of share-partitions.

Names, defaults and limits are Apache Kafka 4.3.1's.
"""

from typing import Final

from ottla.logstore.words.config_def import at_least, between
from ottla.node.settings.setting import HIGH, INT, LOW, SHORT, setting

SHARE_COORDINATOR_SETTINGS: Final = (
    setting(
        "share.coordinator.state.topic.num.partitions",
        INT,
        50,
        "The number of partitions of __share_group_state, the topic that stores the state of "
        "share-partitions; do not change it once the topic exists.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        3,
        "The replication factor of __share_group_state. While the cluster has fewer brokers, the "
        "number of brokers is used.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        2,
        "The minimum number of in-sync replicas for a change of the state of a share-partition.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        100 * 1024 * 1024,
        "The segment size of __share_group_state.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.state.topic.compression.codec",
        INT,
        0,
        "The compression of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        500,
        "The number of updates of the state of a share-partition that are written between two snapshots.",
        between(0, 500),
    ),
    setting(
        "share.coordinator.write.timeout.ms",
        INT,
        5_000,
        "How long a change of the state of a share-partition waits for the replicas of __share_group_state.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        300_000,
        "How often to delete the records of __share_group_state that later ones have made redundant.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
    setting(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300_000,
        "How often to write a new snapshot of states that do not change, so that older records of "
        "__share_group_state can be deleted.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
)
