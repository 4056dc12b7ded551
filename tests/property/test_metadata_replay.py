"""Random commands: replayed at once, batch by batch or through a snapshot, they give the same image."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.cluster_features import SECURITY_VERSION
from ottla.metadata_raft.commands import (
    AclFilterFields,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterUserScramCredentials,
    ConfigChange,
    ConfigOperation,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    FeatureUpdate,
    NewAcl,
    NewPartitions,
    QuotaChange,
    QuotaChanges,
    ResourceChanges,
    ScramDeletion,
    ScramUpsertion,
    TopicReference,
    UpdateFeatures,
)
from ottla.metadata_raft.delta import MetadataDelta, replay_batch
from ottla.metadata_raft.image import MetadataImage, check_invariants
from ottla.metadata_raft.image_changes import changes_between
from ottla.metadata_raft.record_codec import decode_batch, decode_record
from ottla.metadata_raft.records import ConfigResourceType, FeatureLevelRecord, QuotaEntityPart
from ottla.metadata_raft.snapshot import decode_snapshot, encode_snapshot
from tests.unit.metadata_raft.metadata_world import EMPTY, MetadataWorld

NAMES = st.sampled_from(["a", "b.c", "b_c", "__consumer_offsets", "bad name"])
COUNTS = st.integers(-2, 6)
CONFIGS = st.sampled_from([("retention.ms", "5"), ("cleanup.policy", "compact"), ("segment.ms", "x")])
USERS = st.sampled_from(["alice", "bob"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, COUNTS, st.integers(-1, 4), st.lists(CONFIGS, max_size=2)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("recreate"), NAMES),
    st.tuples(st.just("grow"), NAMES, COUNTS),
    st.tuples(st.just("alter"), NAMES, CONFIGS, st.sampled_from(ConfigOperation), st.booleans()),
    st.tuples(st.just("restart"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("ids")),
    st.tuples(st.just("feature"), st.integers(0, 4)),
    st.tuples(st.just("allow"), USERS, st.integers(2, 4)),
    st.tuples(st.just("forbid"), st.none() | USERS, st.integers(1, 4)),
    st.tuples(st.just("quota"), st.none() | USERS, st.sampled_from([None, 1.0, 2.0])),
    st.tuples(st.just("credential"), USERS, st.integers(1, 2), st.booleans()),
)


def play(world: MetadataWorld, step: tuple[Any, ...]) -> None:
    match step:
        case ("create", name, partitions, factor, configs):
            world.submit(CreateTopics(topics=[world.topic(name, partitions, factor, configs=configs)]))
        case ("delete", name):
            world.submit(DeleteTopics(topics=[TopicReference(name=name)]))
        case ("recreate", name):
            world.submit(DeleteTopics(topics=[TopicReference(name=name)]))
            world.submit(CreateTopics(topics=[world.topic(name, 2, configs=[("retention.ms", "7")])]))
        case ("grow", name, count):
            world.submit(CreatePartitions(topics=[NewPartitions(name=name, count=count)]))
        case ("alter", name, (key, value), operation, replace_all):
            change = ConfigChange(name=key, operation=operation, value=value)
            resource = ResourceChanges(
                resource_type=ConfigResourceType.TOPIC,
                resource_name=name,
                changes=[change],
                replace_all=replace_all,
            )
            world.submit(AlterConfigs(resources=[resource]))
        case ("restart", broker_id, unfence):
            world.start_broker(broker_id, unfence=unfence)
        case ("ids",):
            world.submit(AllocateProducerIds(broker_id=0, broker_epoch=world.image.brokers[0].broker_epoch))
        case ("feature", level):
            world.submit(
                UpdateFeatures(
                    feature_updates=[FeatureUpdate(feature="some.feature", max_version_level=level)]
                )
            )

        case ("allow", user, operation):
            acl = NewAcl(
                id=world.uuid(),
                resource_type=2,
                resource_name="a",
                pattern_type=3,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=3,
            )
            world.submit(CreateAcls(creations=[acl]))
        case ("forbid", user, operation):
            selected = AclFilterFields(
                resource_type=1,
                pattern_type=1,
                principal=None if user is None else f"User:{user}",
                operation=operation,
                permission_type=1,
            )
            world.submit(DeleteAcls(filters=[selected]))
        case ("quota", user, value):
            change = QuotaChange(key="producer_byte_rate", value=value or 0.0, remove=value is None)
            entity = [QuotaEntityPart(entity_type="user", entity_name=user)]
            world.submit(AlterClientQuotas(entries=[QuotaChanges(entity=entity, changes=[change])]))
        case ("credential", user, mechanism, True):
            keys = {"stored_key": bytes(32 * mechanism), "server_key": bytes(32 * mechanism)}
            upsertion = ScramUpsertion(name=user, mechanism=mechanism, iterations=4096, salt=b"s", **keys)
            world.submit(AlterUserScramCredentials(upsertions=[upsertion]))
        case ("credential", user, mechanism, False):
            world.submit(AlterUserScramCredentials(deletions=[ScramDeletion(name=user, mechanism=mechanism)]))


def check_changes(before: MetadataImage, after: MetadataImage) -> None:
    """Assert that the changes between two images lead from one to the other."""
    changes = changes_between(before, after)
    topics, configs = dict(before.topics.by_name), dict(before.configs.by_resource)
    for changed in changes.topics:
        assert changed.before is None or topics[changed.before.name] is changed.before
        if changed.after is None:
            assert changed.before is not None
            del topics[changed.before.name]
        else:
            topics[changed.after.name] = changed.after
    for key in changes.configs:
        configs[key] = after.configs.by_resource.get(key, {})
    brokers = {**before.brokers, **{key: after.brokers.get(key) for key in changes.brokers}}
    assert topics == after.topics.by_name
    assert {key: value for key, value in configs.items() if value} == after.configs.by_resource
    assert {key: value for key, value in brokers.items() if value is not None} == after.brokers
    assert changes.features == (before.features != after.features)
    assert changes.acls == (before.acls != after.acls)
    for changed_keys, old, new in (
        (changes.client_quotas, before.client_quotas, after.client_quotas),
        (changes.scram_credentials, before.scram_credentials, after.scram_credentials),
    ):
        assert {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)} == changed_keys


@pytest.mark.slow
@given(st.lists(STEPS, max_size=25))
def test_replay_and_snapshot_give_the_live_image(steps: list[tuple[Any, ...]]) -> None:
    world = MetadataWorld(brokers=2)
    world.append([FeatureLevelRecord(name=SECURITY_VERSION, feature_level=1)])
    for step in steps:
        try:
            play(world, step)
        except KafkaError as error:
            assert error.code in (ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.STALE_BROKER_EPOCH)

    batches = [decode_batch(encoded)[0] for encoded in world.log]
    one_by_one: MetadataImage = EMPTY
    delta = MetadataDelta(EMPTY)
    for batch in batches:
        one_by_one, _ = replay_batch(one_by_one, batch)
        for record in batch.records:
            delta.replay(record)
    live = world.image
    at_once = delta.apply(version=live.version, epoch=live.epoch, timestamp_ms=live.timestamp_ms)
    content = b"".join(bytes(part) for part in encode_snapshot(live))
    from_snapshot = decode_snapshot(content, empty=EMPTY, version=live.version, epoch=live.epoch)

    check_invariants(at_once)
    check_changes(one_by_one if not batches else replay_batch(EMPTY, batches[0])[0], live)
    assert changes_between(live, one_by_one) == changes_between(live, live)
    assert one_by_one == live
    assert at_once == live
    assert from_snapshot == live


@pytest.mark.slow
@given(st.binary(max_size=80))
def test_hostile_records_are_rejected_without_other_errors(content: bytes) -> None:
    for hostile in (content, b"\x01" + content, b"\x01\x03\x01" + content):
        try:
            decode_record(hostile)
        except KafkaError as error:
            assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.slow
@given(st.data())
def test_records_in_any_order_never_break_the_delta(data: st.DataObject) -> None:
    """In a log of foreign origin, each record is accepted or rejected, and the image is consistent."""
    world = MetadataWorld()
    world.submit(CreateTopics(topics=[world.topic("a", 3), world.topic("b", 1)]))
    records = [record for encoded in world.log for record in decode_batch(encoded)[0].records]
    delta = MetadataDelta(EMPTY)

    for record in data.draw(st.lists(st.sampled_from(records), max_size=20)):
        try:
            delta.replay(record)
        except KafkaError as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE

    image = delta.apply(version=1, epoch=1, timestamp_ms=1)
    assert len(image.topics.by_id) == len(image.topics.by_name)
