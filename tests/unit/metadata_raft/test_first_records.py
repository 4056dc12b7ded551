"""The first records of a new cluster."""

from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import ConfigRecord, ConfigResourceType, UserScramCredentialRecord

USER = UserScramCredentialRecord(name="anna")


def config_of(cluster_ids: list[bytes]) -> ControllerConfig:
    def first_records(cluster_id: bytes) -> list[UserScramCredentialRecord]:
        cluster_ids.append(cluster_id)
        return [USER]

    return ControllerConfig(first_records=first_records)


def test_a_new_cluster_begins_with_features_and_then_the_records_of_the_settings() -> None:
    image, cluster_ids = MetadataImage(cluster_id=b"0123456789abcdef"), list[bytes]()

    due = Controller(image, config_of(cluster_ids)).activate(image, 0)

    assert due is not None and len(due.records) == len(SUPPORTED_FEATURES) + 2
    assert due.records[-2] == ConfigRecord(
        resource_type=ConfigResourceType.BROKER, name="min.insync.replicas", value="1"
    ), "eligible leader replicas need it"
    assert due.records[-1] is USER, "after the feature that it needs"
    assert cluster_ids == [image.cluster_id]


def test_an_existing_cluster_gets_no_first_records() -> None:
    levels = {name: highest for name, (_, highest) in SUPPORTED_FEATURES.items()}
    image, cluster_ids = MetadataImage(cluster_id=b"0123456789abcdef", features=levels), list[bytes]()

    assert Controller(image, config_of(cluster_ids)).activate(image, 0) is None and cluster_ids == []
