"""Decides changes of finalized features by UpdateFeatures (KIP-584, KIP-778)."""

from collections.abc import Iterator

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.cluster_features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    SECURITY_VERSION,
    SUPPORTED_FEATURES,
)
from ottla.metadata_raft.commands import FeatureUpdate, UpdateFeatures, UpdateFeaturesReply, UpgradeType
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.eligible_replicas import first_min_in_sync_replicas, without_eligible_replicas
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_SINCE,
    METADATA_VERSION,
    writes_the_same,
)
from ottla.metadata_raft.records import BrokerFeature, FeatureLevelRecord, MetadataRecord

UNSUPPORTED = (0, 0)


def update_features(image: MetadataImage, command: UpdateFeatures, config: ControllerConfig) -> Decision:
    """Decide UpdateFeatures; INVALID_UPDATE_VERSION for all updates if one of them is not possible."""
    records: list[MetadataRecord] = []
    seen: set[str] = set()
    for update in command.feature_updates:
        if update.feature in seen:
            raise _refused(update, "The feature is named twice.")
        seen.add(update.feature)
        _check_update(image, update)
        if update.max_version_level != image.features.get(update.feature, 0):
            records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
            if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION:
                records += _eligibility_changes(image, config, is_on=update.max_version_level > 0)
    return Decision(records=[] if command.validate_only else records, reply=UpdateFeaturesReply())


def check_supported(image: MetadataImage, broker_id: int, features: list[BrokerFeature]) -> None:
    """Reject a broker that does not support a finalized feature level (UNSUPPORTED_VERSION)."""
    ranges = {one.name: (one.min_supported_version, one.max_supported_version) for one in features}
    for name, level in sorted(image.features.items()):
        low, high = ranges.get(name, UNSUPPORTED)
        if not low <= level <= high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because broker {broker_id} does not support finalized version {level} of"
                f" {name}. The broker wants a version between {low} and {high}, inclusive.",
            )


def check_security_version(image: MetadataImage, what: str) -> None:
    """Reject `what` (UNSUPPORTED_VERSION) while the metadata may not hold it, as older nodes would stop."""
    if image.security_version < 1:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster can keep {what} only when the feature {SECURITY_VERSION} is 1: once all nodes have "
            f"been upgraded, raise it with kafka-features upgrade --feature {SECURITY_VERSION}=1.",
        )


def first_features(image: MetadataImage, config: ControllerConfig) -> list[MetadataRecord]:
    """Return records that set all features of a new cluster to their highest levels.

    `min.insync.replicas`, which eligible leader replicas need, is set with them. There are none for a cluster
    that has a metadata.version.
    """
    if METADATA_VERSION in image.features:
        return []
    return [
        *(
            FeatureLevelRecord(name=name, feature_level=highest)
            for name, (_, highest) in SUPPORTED_FEATURES.items()
        ),
        *first_min_in_sync_replicas(image, config),
    ]


def _eligibility_changes(
    image: MetadataImage, config: ControllerConfig, *, is_on: bool
) -> Iterator[MetadataRecord]:
    return first_min_in_sync_replicas(image, config) if is_on else without_eligible_replicas(image)


def _check_update(image: MetadataImage, update: FeatureUpdate) -> None:
    name, level = update.feature, update.max_version_level
    try:
        kind = UpgradeType(update.upgrade_type)
    except ValueError:
        raise _refused(update, "The controller does not support the given upgrade type.") from None
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    is_known = any(name in broker.features for broker in image.brokers.values())
    for broker_id, broker in sorted(image.brokers.items()):
        low, high = broker.features.get(name, UNSUPPORTED)
        # 0 removes a feature, so brokers need not support it; metadata.version cannot be removed.
        if low <= level <= high or (level == 0 and name != METADATA_VERSION):
            continue
        if not high:
            raise _refused(update, f"Broker {broker_id} does not support this feature.")
        raise _refused(update, f"Broker {broker_id} only supports versions {low}-{high}")
    if not is_known:
        raise _refused(update, "No broker supports this feature.")
    current = image.features.get(name, 0)
    if level < current and kind is UpgradeType.UPGRADE:
        raise _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
            " unsafe downgrade.",
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if name == SECURITY_VERSION and level < current:
        raise _refused(
            update,
            "The log keeps the records that this feature allows, and nodes that do not know them cannot run.",
        )
    if (
        name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and level
        and image.metadata_version < ELIGIBLE_LEADER_REPLICAS_SINCE
    ):
        raise _refused(
            update,
            f"It needs {METADATA_VERSION} {ELIGIBLE_LEADER_REPLICAS_SINCE} or higher, and the cluster has "
            f"{image.metadata_version}.",
        )
    if name == METADATA_VERSION and level < current and not writes_the_same(level, current):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if kind is UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )


def _refused(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature[:100]}. {reason}",
    )
