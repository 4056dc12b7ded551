"""ottla.node.counters.leader_load: the bytes per second of a node as a leader, over some minutes."""

import pytest

from ottla.node.counters.leader_load import MEAN_OVER_S, LeaderLoad


def test_the_load_approaches_a_steady_rate_within_some_minutes() -> None:
    load = LeaderLoad()

    for minute in range(1, 11):
        load.note(total=minute * 60 * 1_000_000, elapsed_s=60)

    assert load.bytes_per_second == pytest.approx(1_000_000, rel=0.01)


def test_the_load_decays_without_traffic() -> None:
    load = LeaderLoad()
    load.note(total=10**9, elapsed_s=MEAN_OVER_S)
    busy = load.bytes_per_second

    for _ in range(10):
        load.note(total=10**9, elapsed_s=MEAN_OVER_S)

    assert load.bytes_per_second < busy / 10_000


def test_a_topic_that_is_deleted_does_not_make_the_load_negative() -> None:
    load = LeaderLoad()
    load.note(total=10**9, elapsed_s=10)

    load.note(total=10**6, elapsed_s=10)

    assert load.bytes_per_second > 0
