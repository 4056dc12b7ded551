"""What waits to be done about partitions: each topic in turn, each partition once."""

from ottla.node.replica.backlog import Backlog


def test_topics_take_turns_whatever_their_size() -> None:
    backlog = Backlog()
    backlog.add("large", range(10))
    backlog.add("small", [0, 1])

    taken = []
    while backlog:
        taken.append(backlog.first())
        assert backlog.take(taken[-1]) is False

    assert taken[:4] == [("large", 0), ("small", 0), ("large", 1), ("small", 1)]
    assert len(taken) == len(set(taken)) == 12


def test_a_partition_that_waits_already_gets_the_new_mark() -> None:
    backlog = Backlog()
    backlog.add("t", [0, 1])
    backlog.add("t", [1], mark=True)

    assert len(backlog) == 2
    assert (backlog.take(("t", 0)), backlog.take(("t", 1))) == (False, True)
    assert backlog.take(("t", 1)) is None


def test_a_topic_without_partitions_to_look_at_does_not_wait() -> None:
    backlog = Backlog()
    backlog.add("t", [])

    assert not backlog
    assert ("t", 0) not in backlog
