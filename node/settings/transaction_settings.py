"""The broker settings of transactions.

Names, defaults and limits are Apache Kafka 4.3.1's; settings that begin with `ottla.` are not in Kafka.
"""

from typing import Final

from ottla.logstore.words.config_def import ConfigScope, at_least
from ottla.node.settings.setting import BOOLEAN, HIGH, INT, LOW, SHORT, setting

TRANSACTION_SETTINGS: Final = (
    setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The maximum transaction timeout that a producer may request.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "How long to keep a transactional id without activity or an open transaction.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often to look for transactions past their timeout, which are aborted.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often to look for expired transactional ids.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Allow transactions without a timeout, which an external coordinator completes by "
        "two-phase commit (KIP-939).",
        importance=LOW,
    ),
    setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "The number of partitions of __transaction_state, the topic that stores the state of "
        "transactions; do not change it once the topic exists.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "The replication factor of __transaction_state. While the cluster has fewer brokers, the "
        "number of brokers is used.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.min.isr",
        INT,
        2,
        "The minimum number of in-sync replicas for a change of a transaction's state.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.segment.bytes",
        INT,
        100 * 1024 * 1024,
        "The segment size of __transaction_state.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Let a partition leader check with the coordinator that the partition belongs to the "
        "transaction before it appends the first transactional records of an older client.",
        importance=LOW,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "The maximum delay between attempts of a partition leader to add its partition to a transaction.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "How long a partition leader keeps trying to add its partition to a transaction "
        "before the producer is told to retry.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "unstable.api.versions.enable",
        BOOLEAN,
        False,
        "Serve InitProducerId version 6, which is not stable in Apache Kafka, even if "
        "two-phase commit is disabled.",
        importance=HIGH,
        internal=True,
    ),
    setting(
        "ottla.transaction.hold.ms",
        INT,
        100,
        "How long a request may wait for the markers of the previous transaction to be written; "
        "0 rejects such a request at once with CONCURRENT_TRANSACTIONS.",
        at_least(0),
    ),
)
