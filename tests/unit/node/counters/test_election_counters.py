"""ottla.node.counters.election_counters: elections are counted, unclean ones separately."""

from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.node.counters.election_counters import ElectionCounters


def topic(leader: int, isr: tuple[int, ...], topic_id: bytes = b"t" * 16) -> TopicImage:
    partition = PartitionImage(0, (1, 2, 3), isr, leader, 1, 1)
    return TopicImage("t", topic_id, (partition,))


def counted(before: TopicImage | None, after: TopicImage | None) -> tuple[int, int]:
    counters = ElectionCounters()
    changes = MetadataChanges((ChangedTopic(before, after),), frozenset(), frozenset(), False)
    counters.note(MetadataImage(), changes)
    return counters.elections, counters.unclean


def test_a_leader_from_the_isr_is_a_clean_election() -> None:
    assert counted(topic(1, (1, 2)), topic(2, (2,))) == (1, 0)


def test_a_leader_from_outside_the_isr_is_an_unclean_one() -> None:
    assert counted(topic(-1, (1,)), topic(3, (3,))) == (1, 1)


def test_a_leader_that_was_eligible_is_a_clean_election() -> None:
    before = topic(-1, ())
    eligible = before.partitions[0]._replace(eligible_leader_replicas=(3,))

    assert counted(before._replace(partitions=(eligible,)), topic(3, (3,))) == (1, 0)


def test_only_the_controller_counts() -> None:
    counters = ElectionCounters(lambda: False)
    changes = MetadataChanges(
        (ChangedTopic(topic(1, (1, 2)), topic(2, (2,))),), frozenset(), frozenset(), False
    )

    counters.note(MetadataImage(), changes)

    assert counters.elections == 0


def test_a_change_to_no_leader_is_no_election() -> None:
    assert counted(topic(1, (1,)), topic(-1, (1,))) == (0, 0)


def test_a_shrinking_isr_and_a_new_topic_are_no_elections() -> None:
    assert counted(topic(1, (1, 2)), topic(1, (1,))) == (0, 0)
    assert counted(None, topic(1, (1,))) == (0, 0)
    assert counted(topic(1, (1,)), topic(2, (2,), b"u" * 16)) == (0, 0)
