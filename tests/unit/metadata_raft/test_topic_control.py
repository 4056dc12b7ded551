"""Topics are created and deleted, and get partitions, with the errors of Apache Kafka."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft import topic_control
from ottla.metadata_raft.commands import (
    AlterConfigs,
    ConfigChange,
    ConfigOperation,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitionAssignment,
    NewPartitions,
    ResourceChanges,
    TopicReference,
)
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND
from ottla.metadata_raft.image import MetadataImage, check_invariants
from ottla.metadata_raft.raft_entry import (
    MANY_RECORDS,
    PARTITION_BYTES,
    REPLICA_BYTES,
    encode_entry,
    surely_fits,
)
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import ConfigResourceType, PartitionRecord
from tests.unit.metadata_raft.metadata_world import CONFIG, MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld(brokers=3)
    made.submit(CreateTopics(topics=[made.topic("old", 2, 2), made.topic("dotted.name", 1)]))
    return made


def errors(reply: object) -> list[ErrorCode]:
    return [topic.error_code for topic in reply.topics]  # type: ignore[attr-defined]


CREATIONS = [
    ("a plain one", {"name": "new"}, ErrorCode.NONE),
    ("counts", {"name": "new", "partitions": 7, "replication_factor": 3}, ErrorCode.NONE),
    ("a name that is taken", {"name": "old"}, ErrorCode.TOPIC_ALREADY_EXISTS),
    ("an empty name", {"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("two dots", {"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a path", {"name": "../etc"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("249 characters", {"name": "x" * 249}, ErrorCode.NONE),
    ("250 characters", {"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a collision", {"name": "dotted_name"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("the metadata log", {"name": "__cluster_metadata"}, ErrorCode.INVALID_REQUEST),
    ("no partitions", {"name": "new", "partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", {"name": "new", "partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    ("no replicas", {"name": "new", "replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("too many replicas", {"name": "new", "replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("an unknown config", {"name": "new", "configs": [("foo", "1")]}, ErrorCode.INVALID_CONFIG),
    ("a bad config", {"name": "new", "configs": [("retention.ms", "x")]}, ErrorCode.INVALID_CONFIG),
    ("a null config", {"name": "new", "configs": [("retention.ms", None)]}, ErrorCode.INVALID_CONFIG),
    ("assignments", {"name": "new", "assignments": [(1, [2, 0]), (0, [1, 2])]}, ErrorCode.NONE),
    (
        "assignments and a count",
        {"name": "new", "partitions": 1, "assignments": [(0, [1])]},
        ErrorCode.INVALID_REQUEST,
    ),
    (
        "assignments and a factor",
        {"name": "new", "replication_factor": 1, "assignments": [(0, [1])]},
        ErrorCode.INVALID_REQUEST,
    ),
    (
        "a gap in assignments",
        {"name": "new", "assignments": [(0, [1]), (2, [1])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    (
        "a partition twice",
        {"name": "new", "assignments": [(0, [1]), (0, [1])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    (
        "an unknown broker",
        {"name": "new", "assignments": [(0, [7])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    (
        "a broker twice",
        {"name": "new", "assignments": [(0, [1, 1])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    ("no brokers", {"name": "new", "assignments": [(0, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (
        "uneven assignments",
        {"name": "new", "assignments": [(0, [0, 1]), (1, [1])]},
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
]


@pytest.mark.parametrize(("case", "topic", "error"), CREATIONS, ids=[case[0] for case in CREATIONS])
def test_a_topic_is_created_or_rejected(
    world: MetadataWorld, case: str, topic: dict[str, object], error: ErrorCode
) -> None:
    before = world.image

    reply = world.submit(CreateTopics(topics=[world.topic(**topic)]))  # type: ignore[arg-type]

    assert errors(reply) == [error], case
    assert (topic["name"] in world.image.topics.by_name) == (
        error is ErrorCode.NONE or topic["name"] == "old"
    )
    assert error is ErrorCode.NONE or (world.image is before and reply.topics[0].error_message)


def test_a_count_of_minus_one_stands_for_the_default(world: MetadataWorld) -> None:
    reply = world.submit(CreateTopics(topics=[world.topic("new")]))

    assert (reply.topics[0].num_partitions, reply.topics[0].replication_factor) == (2, 1)
    assert world.image.topics.by_id[reply.topics[0].topic_id].name == "new"


def test_a_manual_assignment_is_kept_in_its_order(world: MetadataWorld) -> None:
    world.submit(CreateTopics(topics=[world.topic("new", assignments=[(1, [2, 0]), (0, [1, 2])])]))

    partitions = world.image.topics.by_name["new"].partitions
    assert [partition.replicas for partition in partitions] == [(1, 2), (2, 0)]
    assert [partition.leader for partition in partitions] == [1, 2]


def test_validate_only_answers_and_changes_nothing(world: MetadataWorld) -> None:
    before = world.image

    reply = world.submit(CreateTopics(topics=[world.topic("new", 3)], validate_only=True))

    assert errors(reply) == [ErrorCode.NONE] and reply.topics[0].num_partitions == 3
    assert world.image is before


def test_a_name_given_twice_is_rejected_and_the_others_are_created(world: MetadataWorld) -> None:
    reply = world.submit(CreateTopics(topics=[world.topic("a"), world.topic("b"), world.topic("a")]))

    assert [(topic.name, topic.error_code) for topic in reply.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
    ]


def test_colliding_names_can_only_be_created_by_one_command(world: MetadataWorld) -> None:
    both = world.submit(CreateTopics(topics=[world.topic("a.b"), world.topic("a_b")]))
    assert errors(both) == [ErrorCode.NONE, ErrorCode.NONE]
    check_invariants(world.image)

    world.submit(DeleteTopics(topics=[TopicReference(name="a_b")]))
    refused = world.submit(CreateTopics(topics=[world.topic("a_b")]))
    world.submit(DeleteTopics(topics=[TopicReference(name="a.b")]))
    accepted = world.submit(CreateTopics(topics=[world.topic("a_b")]))

    assert errors(refused) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert refused.topics[0].error_message == "Topic 'a_b' collides with existing topic: a.b"
    assert errors(accepted) == [ErrorCode.NONE]
    check_invariants(world.image)


@pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
def test_a_command_that_asks_for_too_much_is_rejected_before_anything_is_created(
    world: MetadataWorld, partitions: int
) -> None:
    with pytest.raises(KafkaError) as refused:
        world.submit(CreateTopics(topics=[world.topic("good"), world.topic("huge", partitions)]))

    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert "good" not in world.image.topics.by_name


def test_the_partitions_of_a_command_count_together_towards_the_limit_of_the_cluster(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = world.image.topics.partition_count
    monkeypatch.setattr(topic_control, "MAX_PARTITIONS", held + 5)

    with pytest.raises(KafkaError, match="of which 2 are left: 3 are too many") as of_topics:
        world.submit(CreateTopics(topics=[world.topic("one", 3), world.topic("two", 3)]))
    with pytest.raises(KafkaError, match="of which 2 are left: 3 are too many") as of_partitions:
        grown = [NewPartitions(name=name, count=5 if name == "old" else 4) for name in ("old", "dotted.name")]
        world.submit(CreatePartitions(topics=grown))
    world.submit(CreateTopics(topics=[world.topic("one", 3), world.topic("two", 2)]))

    assert of_topics.value.code is of_partitions.value.code is ErrorCode.POLICY_VIOLATION
    assert world.image.topics.partition_count == held + 5


def test_replicas_spread_over_brokers_and_racks() -> None:
    world = MetadataWorld(brokers=0)
    for broker_id in range(4):
        world.start_broker(broker_id, rack="ab"[broker_id // 2])

    world.submit(CreateTopics(topics=[world.topic("t", 8, 2)]))

    partitions = world.image.topics.by_name["t"].partitions
    leaders = [partition.leader for partition in partitions]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({partition.replicas for partition in partitions}) > 4
    assert all((one // 2) != (other // 2) for one, other in (partition.replicas for partition in partitions))


def test_a_fenced_broker_gets_no_leader() -> None:
    world = MetadataWorld(brokers=1)
    world.start_broker(1, unfence=False)

    world.submit(CreateTopics(topics=[world.topic("t", 4, 2)]))

    for partition in world.image.topics.by_name["t"].partitions:
        assert partition.replicas == (0, 1) and partition.isr == (0,) and partition.leader == 0


def test_topics_are_deleted_by_name_and_by_id(world: MetadataWorld) -> None:
    topic_id = world.image.topics.by_name["old"].topic_id

    reply = world.submit(
        DeleteTopics(
            topics=[
                TopicReference(topic_id=topic_id),
                TopicReference(name="dotted.name"),
                TopicReference(name="nobody"),
                TopicReference(topic_id=b"?" * 16),
                TopicReference(),
                TopicReference(name="both", topic_id=topic_id),
            ]
        )
    )

    assert {topic.name: topic.error_code for topic in reply.topics if topic.name} == {
        "old": ErrorCode.NONE,
        "dotted.name": ErrorCode.NONE,
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "both": ErrorCode.INVALID_REQUEST,
    }
    assert ErrorCode.UNKNOWN_TOPIC_ID in errors(reply)
    assert not world.image.topics.by_name and world.image.topics.partition_count == 0
    assert errors(world.submit(CreateTopics(topics=[world.topic("dotted_name")]))) == [ErrorCode.NONE]


def test_a_topic_named_by_name_and_by_id_stays(world: MetadataWorld) -> None:
    topic_id = world.image.topics.by_name["old"].topic_id

    reply = world.submit(DeleteTopics(topics=[TopicReference(name="old"), TopicReference(topic_id=topic_id)]))

    assert errors(reply) == [ErrorCode.INVALID_REQUEST] * 2
    assert "old" in world.image.topics.by_name


def test_deleting_a_topic_removes_its_configs(world: MetadataWorld) -> None:
    world.submit(CreateTopics(topics=[world.topic("t", configs=[("retention.ms", "5")])]))
    assert world.image.configs.topic("t") == {"retention.ms": "5"}

    world.submit(DeleteTopics(topics=[TopicReference(name="t")]))
    world.submit(CreateTopics(topics=[world.topic("t")]))

    assert world.image.configs.topic("t") == {}


def test_deletion_can_be_turned_off() -> None:
    world = MetadataWorld(replace(CONFIG, delete_topic_enable=False))

    with pytest.raises(KafkaError) as refused:
        world.submit(DeleteTopics(topics=[TopicReference(name="t")]))

    assert refused.value.code is ErrorCode.TOPIC_DELETION_DISABLED


GROWTHS = [
    ("more", NewPartitions(name="old", count=5), ErrorCode.NONE),
    ("as many", NewPartitions(name="old", count=2), ErrorCode.INVALID_PARTITIONS),
    ("fewer", NewPartitions(name="old", count=1), ErrorCode.INVALID_PARTITIONS),
    ("negative", NewPartitions(name="old", count=-1), ErrorCode.INVALID_PARTITIONS),
    ("unknown", NewPartitions(name="nobody", count=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (
        "assigned",
        NewPartitions(name="old", count=3, assignments=[NewPartitionAssignment(broker_ids=[2, 1])]),
        ErrorCode.NONE,
    ),
    (
        "too few assignments",
        NewPartitions(name="old", count=4, assignments=[NewPartitionAssignment(broker_ids=[2, 1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    (
        "another factor",
        NewPartitions(name="old", count=3, assignments=[NewPartitionAssignment(broker_ids=[2])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
]


@pytest.mark.parametrize(("case", "growth", "error"), GROWTHS, ids=[case[0] for case in GROWTHS])
def test_partitions_are_added_or_the_topic_stays(
    world: MetadataWorld, case: str, growth: NewPartitions, error: ErrorCode
) -> None:
    reply = world.submit(CreatePartitions(topics=[growth]))

    assert errors(reply) == [error], case
    expected = growth.count if error is ErrorCode.NONE else 2
    assert len(world.image.topics.by_name["old"].partitions) == expected
    assert world.image.topics.partition(TopicPartition("old", expected)) is None


def test_two_billion_partitions_are_rejected_at_once(world: MetadataWorld) -> None:
    with pytest.raises(KafkaError) as refused:
        world.submit(CreatePartitions(topics=[NewPartitions(name="old", count=2**31 - 1)]))

    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_an_old_image_stays_as_it_was(world: MetadataWorld) -> None:
    before = world.image
    names = dict(before.topics.by_name)

    world.submit(CreateTopics(topics=[world.topic("new", configs=[("retention.ms", "1")])]))
    world.submit(CreatePartitions(topics=[NewPartitions(name="old", count=9)]))
    world.submit(DeleteTopics(topics=[TopicReference(name="dotted.name")]))
    world.submit(
        AlterConfigs(
            resources=[
                ResourceChanges(
                    resource_type=ConfigResourceType.TOPIC,
                    resource_name="old",
                    changes=[ConfigChange(name="retention.ms", operation=ConfigOperation.SET, value="9")],
                )
            ]
        )
    )

    assert before.topics.by_name == names and not before.configs.by_resource
    assert len(before.topics.by_name["old"].partitions) == 2


def test_too_many_records_are_rejected_before_the_command_is_decided() -> None:
    world = MetadataWorld()
    unknown = TopicReference(name="unknown")

    with pytest.raises(KafkaError) as refused:
        world.submit(DeleteTopics(topics=[unknown] * (MAX_RECORDS_PER_COMMAND + 1)))

    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_equally_placed_partitions_share_their_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = MetadataWorld(brokers=3)
    looked_at: list[object] = []
    look = topic_control.new_replicas

    def counted(image: MetadataImage, replicas: Sequence[int]) -> object:
        looked_at.append(replicas)
        return look(image, replicas)

    monkeypatch.setattr(topic_control, "new_replicas", counted)
    decision = topic_control.create_topics(
        world.image, CreateTopics(topics=[world.topic("large", 2_000, 2)]), CONFIG
    )

    assert len(decision.records) == 2_001 and len(looked_at) == len(set(looked_at)) == 6


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_entry_of_very_many_partitions_is_known_to_fit_without_being_encoded(replicas: int) -> None:
    world = MetadataWorld(brokers=3)
    made = world.topic("large", 9_900, replicas, configs=[("retention.ms", "1000")])
    records = topic_control.create_topics(world.image, CreateTopics(topics=[made]), CONFIG).records
    batch = MetadataBatch(world.image.version + 1, 1, 1_000, records, world.image.metadata_version)

    assert surely_fits(batch)
    assert len(encode_entry(batch, 0)) < 9_900 * (PARTITION_BYTES + REPLICA_BYTES * replicas)
    assert not surely_fits(batch._replace(records=records[: MANY_RECORDS - 1]))


def test_an_entry_that_may_be_too_large_is_not_known_to_fit() -> None:
    brokers = tuple(range(400))
    large = PartitionRecord(topic_id=bytes(16), replicas=brokers, isr=brokers, directories=(bytes(16),) * 400)
    batch = MetadataBatch(0, 1, 1_000, [large] * 2_000)

    assert not surely_fits(batch)
