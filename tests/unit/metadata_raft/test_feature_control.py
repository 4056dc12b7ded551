"""Finalized features, and metadata.version among them."""

from collections.abc import Mapping

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.cluster_features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    SECURITY_VERSION,
    SHARE_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from ottla.metadata_raft.commands import FeatureUpdate, RegisterBroker, UpdateFeatures, UpgradeType
from ottla.metadata_raft.feature_control import check_security_version
from ottla.metadata_raft.metadata_version import LATEST_METADATA_VERSION, METADATA_VERSION
from ottla.metadata_raft.record_codec import MetadataBatch, encode_record, written_version
from ottla.metadata_raft.records import (
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from tests.unit.metadata_raft.metadata_world import NOW_MS, MetadataWorld

UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def of_two_releases(level: int = 25) -> MetadataWorld:
    """Return a world with brokers of metadata.version 17 to 30 and 17 to 29, and `level` finalized."""
    world = MetadataWorld(brokers=0)
    for broker_id, highest in enumerate((30, 29)):
        features = [
            BrokerFeature(name=METADATA_VERSION, min_supported_version=17, max_supported_version=highest),
            BrokerFeature(name="some.feature", min_supported_version=1, max_supported_version=3),
        ]
        world.submit(
            RegisterBroker(
                broker_id=broker_id,
                incarnation_id=world.uuid(),
                log_dirs=[world.uuid()],
                features=features,
            )
        )
    world.raise_feature(METADATA_VERSION, level)
    return world


CASES = [
    ("higher", METADATA_VERSION, 29, UPGRADE, None),
    ("not for all", METADATA_VERSION, 30, UPGRADE, "Broker 1 only supports versions 17-29"),
    ("too low", METADATA_VERSION, 3, SAFE, "Broker 0 only supports versions 17-30"),
    ("removed", METADATA_VERSION, 0, SAFE, "Broker 0 only supports versions 17-30"),
    ("lower, same records", METADATA_VERSION, 24, SAFE, None),
    ("lower by an upgrade", METADATA_VERSION, 24, UPGRADE, "Can't downgrade the version of this feature"),
    ("lower, other records", METADATA_VERSION, 22, SAFE, "Refusing to perform the requested downgrade"),
    ("the same unsafely", METADATA_VERSION, 22, UNSAFE, "Unsafe metadata downgrade is not supported"),
    ("higher by a downgrade", METADATA_VERSION, 26, SAFE, "Can't downgrade to a newer version."),
    ("negative", METADATA_VERSION, -1, SAFE, "A feature version cannot be less than 0."),
    ("an unknown type", METADATA_VERSION, 29, 7, "does not support the given upgrade type"),
    ("unknown", "nonsense", 1, UPGRADE, "Broker 0 does not support this feature."),
    ("unknown at 0", "nonsense", 0, SAFE, "No broker supports this feature."),
    ("another one", "some.feature", 2, UPGRADE, None),
    ("another one too high", "some.feature", 4, UPGRADE, "Broker 0 only supports versions 1-3"),
]


@pytest.mark.parametrize(
    ("name", "level", "kind", "problem"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_level_is_set_or_rejected(name: str, level: int, kind: int, problem: str | None) -> None:
    world = of_two_releases()
    update = FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind)
    before = world.image

    if problem is None:
        world.submit(UpdateFeatures(feature_updates=[update], validate_only=True))
        assert world.image is before
        world.submit(UpdateFeatures(feature_updates=[update]))
        assert world.image.features[name] == level
        return
    with pytest.raises(KafkaError) as refused:
        world.submit(UpdateFeatures(feature_updates=[update]))
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert problem in str(refused.value.detail)
    assert world.image is before


def test_level_0_removes_a_feature_and_either_all_updates_of_a_command_are_done_or_none() -> None:
    world = of_two_releases()
    world.raise_feature("some.feature", 2)
    good = FeatureUpdate(feature="some.feature", max_version_level=0, upgrade_type=SAFE)
    bad = FeatureUpdate(feature="nonsense", max_version_level=1)

    with pytest.raises(KafkaError):
        world.submit(UpdateFeatures(feature_updates=[good, bad]))
    with pytest.raises(KafkaError):
        world.submit(UpdateFeatures(feature_updates=[good, good]))
    between = world.image.features["some.feature"]
    world.submit(UpdateFeatures(feature_updates=[good]))

    assert between == 2 and "some.feature" not in world.image.features


def test_a_new_cluster_begins_at_the_latest_level() -> None:
    world = MetadataWorld(brokers=0)

    due = world.controller.activate(world.image, 0)
    assert due is not None
    world.controller.replay(MetadataBatch(0, 1, NOW_MS, due.records))

    assert world.image.features == {
        METADATA_VERSION: LATEST_METADATA_VERSION,
        GROUP_VERSION: 1,
        TRANSACTION_VERSION: 2,
        SHARE_VERSION: 2,
        ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
        SECURITY_VERSION: 1,
    }
    assert world.image.group_version == 1
    assert world.image.security_version == 1
    assert world.controller.activate(world.image, 0) is None


THIS_RELEASE = SUPPORTED_FEATURES
OLDER_RELEASE = {METADATA_VERSION: SUPPORTED_FEATURES[METADATA_VERSION]}


def register(world: MetadataWorld, broker_id: int, features: Mapping[str, tuple[int, int]]) -> None:
    world.submit(
        RegisterBroker(
            broker_id=broker_id,
            incarnation_id=world.uuid(),
            log_dirs=[world.uuid()],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in features.items()
            ],
        )
    )


def set_feature(world: MetadataWorld, name: str, level: int, kind: UpgradeType = UPGRADE) -> None:
    update = FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind)
    world.submit(UpdateFeatures(feature_updates=[update]))


def level_of(world: MetadataWorld, name: str) -> int:
    """Return the level that the parts of a node read."""
    image = world.image
    levels = {
        GROUP_VERSION: image.group_version,
        TRANSACTION_VERSION: image.transaction_version,
        SHARE_VERSION: image.share_version,
    }
    return levels[name]


@pytest.mark.parametrize(
    ("name", "highest"), [(GROUP_VERSION, 1), (TRANSACTION_VERSION, 2), (SHARE_VERSION, 2)]
)
def test_an_older_cluster_gets_a_later_feature_on_request(name: str, highest: int) -> None:
    world = MetadataWorld(brokers=0)
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION)
    world.controller.replay(MetadataBatch(0, 1, NOW_MS, [level]))
    register(world, 0, THIS_RELEASE)

    assert world.controller.activate(world.image, 0) is None and level_of(world, name) == 0
    for level_ in range(1, highest + 1):
        set_feature(world, name, level_)
        assert level_of(world, name) == level_
    with pytest.raises(KafkaError, match="Can't downgrade"):
        set_feature(world, name, 0)
    set_feature(world, name, 0, SAFE)
    assert level_of(world, name) == 0 and name not in world.image.features
    with pytest.raises(KafkaError, match=f"Broker 0 only supports versions 0-{highest}"):
        set_feature(world, name, highest + 1)


@pytest.mark.parametrize(
    ("name", "highest"), [(GROUP_VERSION, 1), (TRANSACTION_VERSION, 2), (SHARE_VERSION, 2)]
)
def test_nodes_of_an_older_release_and_a_later_feature_exclude_each_other(name: str, highest: int) -> None:
    world = MetadataWorld(brokers=0)
    register(world, 0, THIS_RELEASE)
    register(world, 1, OLDER_RELEASE)

    with pytest.raises(KafkaError, match="Broker 1 does not support this feature"):
        set_feature(world, name, highest)
    register(world, 1, THIS_RELEASE)
    set_feature(world, name, highest)
    with pytest.raises(KafkaError, match=f"broker 1 does not support finalized version {highest} of {name}"):
        register(world, 1, OLDER_RELEASE)


def test_a_cluster_that_may_have_security_records_rejects_older_nodes_for_ever() -> None:
    world = MetadataWorld(brokers=0)
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION)
    world.controller.replay(MetadataBatch(0, 1, NOW_MS, [level]))
    register(world, 0, THIS_RELEASE)
    register(world, 1, OLDER_RELEASE)
    assert world.controller.activate(world.image, 0) is None

    with pytest.raises(KafkaError, match="Broker 1 does not support this feature"):
        set_feature(world, SECURITY_VERSION, 1)
    with pytest.raises(KafkaError, match="raise it with kafka-features") as refused:
        check_security_version(world.image, "ACLs")
    register(world, 1, THIS_RELEASE)
    set_feature(world, SECURITY_VERSION, 1)
    check_security_version(world.image, "ACLs")

    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match=f"does not support finalized version 1 of {SECURITY_VERSION}"):
        register(world, 1, OLDER_RELEASE)
    for kind in (SAFE, UNSAFE):
        with pytest.raises(KafkaError, match="keeps the records that this feature allows"):
            set_feature(world, SECURITY_VERSION, 0, kind)


def test_a_node_that_knows_a_lower_level_keeps_the_cluster_there() -> None:
    """One release served transactions without epochs that increase."""
    between = {**SUPPORTED_FEATURES, TRANSACTION_VERSION: (0, 1)}
    world = MetadataWorld(brokers=0)
    register(world, 0, THIS_RELEASE)
    register(world, 1, between)

    with pytest.raises(KafkaError, match="Broker 1 only supports versions 0-1"):
        set_feature(world, TRANSACTION_VERSION, 2)
    set_feature(world, TRANSACTION_VERSION, 1)
    register(world, 1, THIS_RELEASE)
    set_feature(world, TRANSACTION_VERSION, 2)
    with pytest.raises(KafkaError, match="broker 1 does not support finalized version 2"):
        register(world, 1, between)


# The versions of each record that Apache Kafka writes at 3.7-IV2, 4.0-IV0, 4.0-IV1 and 4.3-IV0.
LEVELS = (17, 22, 23, 30)
VERSIONS = {
    RegisterBrokerRecord: (3, 3, 3, 4),
    PartitionRecord: (1, 1, 2, 2),
    PartitionChangeRecord: (1, 1, 2, 2),
    BrokerRegistrationChangeRecord: (2, 2, 2, 3),
}


@pytest.mark.parametrize("cls", VERSIONS, ids=lambda cls: cls.__name__)
def test_records_are_written_in_the_versions_of_the_level(cls: type) -> None:
    assert tuple(written_version(cls, level) for level in LEVELS) == VERSIONS[cls]
    assert tuple(encode_record(cls(), level)[2] for level in LEVELS) == VERSIONS[cls]


def test_the_level_of_the_cluster_is_that_of_its_batches() -> None:
    assert of_two_releases(22).image.metadata_version == 22
    assert MetadataWorld().image.metadata_version == LATEST_METADATA_VERSION
