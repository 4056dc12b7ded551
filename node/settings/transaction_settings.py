"""The broker settings of transactions.

Names, defaults and limits are Apache Kafka 4.3.1's; `ottla.` begins the names of our own.
"""

from typing import Final

from ottla.logstore.config_def import ConfigScope, at_least
from ottla.node.settings.setting import BOOLEAN, HIGH, INT, LOW, SHORT, setting

TRANSACTION_SETTINGS: Final = (
    setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest timeout that a producer may ask for its transactions.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "A transactional id without a transaction is forgotten when nobody used it for this long.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often transactions whose timeout is over are looked for, and aborted.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often transactional ids that nobody uses any more are looked for.",
        at_least(1),
        importance=LOW,
    ),
    setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether a producer may have transactions without a timeout, which an outside coordinator ends"
        " (KIP-939).",
        importance=LOW,
    ),
    setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of the topic that holds the states of transactions; not to be changed once it exists.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas of that topic; while the cluster has fewer nodes, as many as it has.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.min.isr",
        INT,
        2,
        "How many replicas must have a change of a transaction's state.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.state.log.segment.bytes",
        INT,
        100 * 1024 * 1024,
        "Segment size of that topic.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a leader asks the coordinator before it takes the first records of a transaction of an older"
        " client.",
        importance=LOW,
        scope=ConfigScope.CLUSTER_WIDE,
    ),
    setting(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "The longest pause after which a leader asks the coordinator again to add its partition to a"
        " transaction.",
        at_least(1),
        importance=HIGH,
    ),
    setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "How long a leader asks so, before the producer is told to come again.",
        at_least(0),
        importance=HIGH,
    ),
    setting(
        "unstable.api.versions.enable",
        BOOLEAN,
        False,
        "Whether InitProducerId 6, which is not final in Apache Kafka, is served without two-phase commit.",
        importance=HIGH,
        internal=True,
    ),
    setting(
        "ottla.transaction.hold.ms",
        INT,
        100,
        "How long a request may wait until the markers of the transaction before it are written; 0 refuses it"
        " with CONCURRENT_TRANSACTIONS at once.",
        at_least(0),
    ),
)
