"""The queue of partitions with pending work: topics take turns, and each partition is in it once."""

from ottla.node.replica.backlog import Backlog


def test_topics_take_turns_whatever_their_size() -> None:
    backlog = Backlog()
    backlog.add("large", range(10))
    backlog.add("small", [0, 1])

    taken = []
    while backlog:
        *place, mark = backlog.take_next()
        taken.append(tuple(place))
        assert mark is False

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


def test_a_topic_that_was_dropped_and_comes_again_has_one_turn_as_the_others() -> None:
    backlog = Backlog()
    backlog.add("a", range(4))
    backlog.add("b", range(4))
    backlog.drop("a")
    backlog.add("a", range(4))

    taken = [backlog.take_next()[0] for _ in range(8)]

    assert sorted(taken) == ["a"] * 4 + ["b"] * 4
    assert not backlog
