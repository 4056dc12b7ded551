"""The lag of share groups, from the states of a share coordinator and the ends of logs."""

from dataclasses import dataclass

from ottla.groupcoord.share_state.share_state import ShareState
from ottla.groupcoord.share_state.share_state_shard import KnownState
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage, TopicImage, TopicsImage
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.metrics.group_families import consumer_group_families, kminion_group_families
from ottla.node.metrics.read_share_starts import ShareStart, ends_to_measure, read_share_starts, with_ends
from ottla.node.services import Services
from ottla.node.work.turns import at_once
from tests.unit.node.fakes import Metadata, services_of

A, B, GONE = b"a" * 16, b"b" * 16, b"g" * 16
TOPICS = [TopicImage("a", A, ()), TopicImage("b", B, ())]


@dataclass
class States:
    """The states of a shard."""

    states: dict[SharePartitionKey, KnownState]


@dataclass
class Core:
    """One share coordinator."""

    shard: States


@dataclass
class Coordinators:
    """The share coordinators of a node."""

    cores: list[Core]


def services_with(states: dict[SharePartitionKey, tuple[int, int]]) -> Services:
    """Return a node whose share coordinator has these states: (start offset, number of done records)."""
    known = {
        key: KnownState(
            ShareState(
                snapshot_epoch=0,
                state_epoch=0,
                leader_epoch=0,
                start_offset=start,
                delivery_complete_count=done,
                create_time_ms=0,
                write_time_ms=0,
            )
        )
        for key, (start, done) in states.items()
    }
    topics = TopicsImage(
        by_name={one.name: one for one in TOPICS}, by_id={one.topic_id: one for one in TOPICS}
    )
    return services_of(
        metadata=Metadata(MetadataImage(topics=topics)), share_states=Coordinators([Core(States(known))])
    )


def key(group: str, topic_id: bytes, partition: int) -> SharePartitionKey:
    return SharePartitionKey(group, topic_id, partition)


def test_partitions_never_fetched_and_deleted_topics_have_no_start() -> None:
    states = {
        key("g", A, 0): (5, 2),
        key("g", A, 1): (-1, -1),
        key("g", GONE, 0): (7, 0),
        key("h", B, 3): (0, -1),
    }

    starts, left_out = at_once(read_share_starts(services_with(states), 10))

    assert starts == {"g": [ShareStart("a", 0, 5, 2)], "h": [ShareStart("b", 3, 0, -1)]}
    assert left_out == 0
    assert ends_to_measure(starts) == [
        GroupOffset(TopicPartition("a", 0), None),
        GroupOffset(TopicPartition("b", 3), None),
    ]


def test_the_number_of_starts_is_limited() -> None:
    states = {key("g", A, number): (0, 0) for number in range(10)}

    starts, left_out = at_once(read_share_starts(services_with(states), 3))

    assert (len(starts["g"]), left_out) == (3, 7)


def test_completed_records_do_not_count_as_lag() -> None:
    starts = [ShareStart("a", 0, 5, 2), ShareStart("a", 1, 5, -1), ShareStart("b", 0, 9, 0)]
    ends = {
        GroupOffset(TopicPartition("a", 0), None): PartitionLag(20, None, None),
        GroupOffset(TopicPartition("a", 1), None): PartitionLag(20, None, None),
    }

    reading = with_ends("g", starts, ends)

    assert [(one.topic, one.partition, one.offset, one.lag) for one in reading.committed] == [
        ("a", 0, 5, 13),
        ("a", 1, 5, None),
        ("b", 0, 9, None),
    ]


def test_the_lag_of_a_share_group_has_the_names_of_other_groups_but_no_members() -> None:
    end = {GroupOffset(TopicPartition("a", 0), None): PartitionLag(20, None, None)}
    reading = with_ends("g", [ShareStart("a", 0, 5, 2)], end)

    families = [*consumer_group_families([], [reading]), *kminion_group_families([], 1, [reading])]
    lines = {line.rstrip() for family in families for line in family.lines}

    place = 'consumergroup="g",topic="a"'
    assert lines == {
        f'kafka_consumergroup_current_offset{{{place},partition="0"}} 5',
        f"kafka_consumergroup_current_offset_sum{{{place}}} 5",
        f'kafka_consumergroup_lag{{{place},partition="0"}} 13',
        f"kafka_consumergroup_lag_sum{{{place}}} 13",
        'kminion_kafka_consumer_group_topic_offset_sum{group_id="g",topic_name="a"} 5',
        'kminion_kafka_consumer_group_topic_lag{group_id="g",topic_name="a"} 13',
        'kminion_kafka_consumer_group_topic_partition_lag{group_id="g",topic_name="a",partition_id="0"} 13',
    }
