"""A command that is sent again is carried out once, and gets its first reply again."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import request_control
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    RequestId,
    TopicReference,
    UnregisterBroker,
    VoterListener,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.delta import MetadataDelta
from ottla.metadata_raft.snapshot import image_records
from tests.unit.metadata_raft.metadata_world import CONFIG, EMPTY, MetadataWorld


def create(world: MetadataWorld, name: str, sequence: int, oldest: int = 0) -> CreateTopicsReply:
    request = RequestId(world.image.brokers[0].broker_epoch, sequence, oldest)
    reply = world.submit(CreateTopics(topics=[world.topic(name, 1)]), request)
    assert isinstance(reply, CreateTopicsReply)
    return reply


def test_a_repeated_command_is_answered_and_does_nothing() -> None:
    world = MetadataWorld()
    first = create(world, "t", 0)
    world.submit(DeleteTopics(topics=[TopicReference(name="t")]))
    version = world.image.version

    again = create(world, "t", 0)

    assert again == first and again.topics[0].error_code == ErrorCode.NONE
    assert world.image.version == version and "t" not in world.image.topics.by_name


def test_the_next_leader_knows_the_reply_from_a_snapshot() -> None:
    world = MetadataWorld()
    first = create(world, "t", 0)
    delta = MetadataDelta(EMPTY)
    for record in image_records(world.image):
        delta.replay(record)

    image = delta.apply(version=world.image.version, epoch=2, timestamp_ms=0)
    world.controller = Controller(image, CONFIG)

    assert create(world, "t", 0) == first


def test_answered_commands_are_forgotten_and_late_copies_rejected() -> None:
    world = MetadataWorld()
    create(world, "a", 0)
    create(world, "b", 1)

    create(world, "c", 2, oldest=2)

    (table,) = world.image.requests.values()
    assert (table.oldest_open_sequence, list(table.replies)) == (2, [2])
    with pytest.raises(KafkaError) as refused:
        create(world, "a", 0)
    assert refused.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_replaced_process_leaves_nothing_behind() -> None:
    world = MetadataWorld()
    create(world, "t", 0)

    world.start_broker(0)

    assert not world.image.requests


def test_a_late_copy_of_a_command_of_a_replaced_process_is_rejected() -> None:
    world = MetadataWorld()
    create(world, "t", 0)
    request = RequestId(world.image.brokers[0].broker_epoch, 0, 0)
    world.start_broker(0)
    world.submit(DeleteTopics(topics=[TopicReference(name="t")]))

    with pytest.raises(KafkaError) as refused:
        world.submit(CreateTopics(topics=[world.topic("t", 1)]), request)

    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert "t" not in world.image.topics.by_name and not world.image.requests


def test_one_command_in_progress_too_many_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_control, "MAX_OPEN_REQUESTS", 2)
    world = MetadataWorld()
    create(world, "a", 0)
    create(world, "b", 1)

    with pytest.raises(KafkaError) as refused:
        create(world, "c", 2)

    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    create(world, "c", 2, oldest=1)


def test_a_copy_of_a_command_that_changed_nothing_changes_nothing_either() -> None:
    """The reply was that the topic exists; a copy arrives after another client has deleted it."""
    world = MetadataWorld()
    world.submit(CreateTopics(topics=[world.topic("t", 1)]))
    response = create(world, "t", 0)
    world.submit(DeleteTopics(topics=[TopicReference(name="t")]))

    late = create(world, "t", 0)

    assert late == response and late.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "t" not in world.image.topics.by_name
    assert create(world, "t", 1, oldest=1).topics[0].error_code == ErrorCode.NONE


def test_the_error_of_a_whole_command_is_returned_again() -> None:
    world = MetadataWorld()
    request = RequestId(world.image.brokers[0].broker_epoch, 0, 0)

    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            world.submit(UnregisterBroker(broker_id=1), request)
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        world.start_broker(1)
    assert 1 in world.image.brokers


def test_a_command_that_failed_with_a_retriable_error_is_decided_again() -> None:
    world = MetadataWorld()
    request = RequestId(world.image.brokers[0].broker_epoch, 0, 0)
    listeners = [VoterListener(name="CONTROLLER", host="h", port=1)]
    world.submit(AddRaftVoter(voter_id=0, voter_directory_id=b"0" * 16, listeners=listeners))
    second = AddRaftVoter(voter_id=1, voter_directory_id=b"1" * 16, listeners=listeners)
    with pytest.raises(KafkaError) as refused:
        world.submit(second, request)
    world.controller.commit(world.image)

    world.submit(second, request)

    assert refused.value.code.retriable and len(world.image.voters) == 2
