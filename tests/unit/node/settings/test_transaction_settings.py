"""The settings of transactions: Kafka's names and defaults, and the settings of a coordinator."""

import pytest

from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.logstore.words.config_def import ConfigScope
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.cluster_features import TRANSACTION_VERSION
from ottla.metadata_raft.image import MetadataImage
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.config import parse_config
from ottla.node.settings.coordinator_configs import transaction_config

# The name, default and minimum of Apache Kafka 4.3.1.
NUMBERS = [
    ("transaction.max.timeout.ms", 900_000, 1),
    ("transactional.id.expiration.ms", 604_800_000, 1),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, 1),
    ("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, 1),
    ("transaction.state.log.num.partitions", 50, 1),
    ("transaction.state.log.replication.factor", 3, 1),
    ("transaction.state.log.min.isr", 2, 1),
    ("transaction.state.log.segment.bytes", 104_857_600, 1),
    ("add.partitions.to.txn.retry.backoff.ms", 20, 1),
    ("add.partitions.to.txn.retry.backoff.max.ms", 100, 0),
    ("request.timeout.ms", 30_000, None),
    ("ottla.transaction.hold.ms", 100, 0),
]
SWITCHES = [
    ("transaction.two.phase.commit.enable", False),
    ("transaction.partition.verification.enable", True),
    ("unstable.api.versions.enable", False),
]


@pytest.mark.parametrize(("name", "default", "lowest"), NUMBERS)
def test_a_number_has_kafkas_default_and_limit(name: str, default: int, lowest: int | None) -> None:
    attribute = name.replace(".", "_")

    assert getattr(parse_config({}), attribute) == default
    assert getattr(parse_config({name: "77"}), attribute) == 77
    if lowest is not None:
        assert getattr(parse_config({name: str(lowest)}), attribute) == lowest
        with pytest.raises(KafkaError) as caught:
            parse_config({name: str(lowest - 1)})
        assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(("name", "default"), SWITCHES)
def test_a_switch_has_kafkas_default(name: str, default: bool) -> None:
    attribute = name.replace(".", "_")

    assert getattr(parse_config({}), attribute) is default
    assert getattr(parse_config({name: str(not default).lower()}), attribute) is not default


def test_only_verification_can_be_changed_while_the_cluster_runs() -> None:
    dynamic = {
        name
        for name, *_ in (*NUMBERS, *SWITCHES)
        if BROKER_CONFIG_DEF.key(name).scope is not ConfigScope.READ_ONLY
    }

    assert dynamic == {"transaction.partition.verification.enable"}


def test_a_coordinator_without_settings_has_kafkas_defaults() -> None:
    assert transaction_config(parse_config({})) == TransactionConfig()


def test_the_transaction_coordinator_gets_the_settings_of_the_broker() -> None:
    config = transaction_config(
        parse_config(
            {
                "transaction.max.timeout.ms": "1",
                "transactional.id.expiration.ms": "2",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "3",
                "transaction.remove.expired.transaction.cleanup.interval.ms": "4",
                "transaction.two.phase.commit.enable": "true",
                "ottla.transaction.hold.ms": "5",
                "message.max.bytes": "6",
            }
        )
    )

    assert config == TransactionConfig(
        transaction_max_timeout_ms=1,
        transactional_id_expiration_ms=2,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=3,
        transaction_remove_expired_transaction_cleanup_interval_ms=4,
        transaction_two_phase_commit_enable=True,
        ottla_transaction_hold_ms=5,
        max_batch_bytes=6,
    )


def test_without_the_feature_the_transaction_version_is_zero() -> None:
    assert MetadataImage().transaction_version == 0
    assert MetadataImage(features={TRANSACTION_VERSION: 2}).transaction_version == 2
