"""The rounds of a mirror beside its rows: periodic, reported in its status, and ended with the query."""

from types import SimpleNamespace

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets
from ottla.pipeline.mirror.mirror_rounds import RoundsThread, RowCount
from ottla.pipeline.mirror.mirror_status import read_status
from tests.pipeline.conftest import MakeMirrored
from tests.pipeline.topics import fill

pytestmark = pytest.mark.slow


def test_every_round_is_due_at_first_and_then_after_its_interval(make_mirrored: MakeMirrored) -> None:
    mirrored = make_mirrored(sync_group_offsets_interval_seconds="40")
    topic = mirrored.make("orders")
    commit_offsets(
        mirrored.cluster, f"{mirrored.prefix}.g", {TopicPartition(topic, 0): CommittedOffset(offset=0)}
    )
    rounds = mirrored.rounds()

    rounds.run_due()

    first = rounds.status
    assert mirrored.remote(topic) in mirrored.cluster.topics([mirrored.remote(topic)])
    assert [one.group_id for one in first.groups] == [f"{mirrored.prefix}.g"]
    assert min(first.topics_followed_ms, first.configs_synced_ms, first.groups_synced_ms) > 0
    assert first.problems == {}
    assert 1 <= rounds.wait_s() <= 30
    rounds.run_due()
    assert rounds.status is first


def test_a_failed_round_is_reported_and_does_not_stop_the_others(make_mirrored: MakeMirrored) -> None:
    mirrored = make_mirrored(replication_factor="99")
    topic = mirrored.make("orders")
    rounds = mirrored.rounds()

    rounds.run_due()

    assert [*rounds.status.problems] == ["topics"]
    assert f"creating topic '{mirrored.remote(topic)}'" in rounds.status.problems["topics"]
    assert rounds.status.groups_synced_ms > 0


def test_rounds_that_are_turned_off_do_not_run(make_mirrored: MakeMirrored) -> None:
    given = {
        "refresh_topics_enabled": "false",
        "sync_topic_configs_enabled": "false",
        "sync_group_offsets_enabled": "false",
    }
    mirrored = make_mirrored(**given)
    topic = mirrored.make("orders")
    rounds = mirrored.rounds()
    before = rounds.status

    rounds.run_due()
    rounds.run_groups()

    assert rounds.status is before
    assert mirrored.cluster.topics([mirrored.remote(topic)]) == {}


def test_rounds_end_with_the_query_and_a_last_sync_of_groups(make_mirrored: MakeMirrored) -> None:
    """The interval of 40 s is not over, so only the last sync can find the group that commits at the end."""
    mirrored = make_mirrored(sync_group_offsets_interval_seconds="40")
    partition = TopicPartition(mirrored.make("orders"), 0)
    rounds = mirrored.rounds()
    groups_at_waits: list[list[str]] = []

    def is_over_after(wait_s: int) -> bool:
        groups_at_waits.append([one.group_id for one in rounds.status.groups])
        if len(groups_at_waits) < 3:
            return False
        commit_offsets(mirrored.cluster, f"{mirrored.prefix}.g", {partition: CommittedOffset(offset=0)})
        return True

    RoundsThread(rounds, is_over_after, at_end=rounds.close).join()

    assert groups_at_waits == [[]] * 3
    assert [one.group_id for one in rounds.status.groups] == [f"{mirrored.prefix}.g"]


def test_each_batch_is_counted_once() -> None:
    count = RowCount()
    batches = [SimpleNamespace(batchId=number, numInputRows=10) for number in range(5)]

    assert [count.add(batches[:2]), count.add(batches[:2]), count.add(batches[1:])] == [20, 20, 50]


def test_a_mirror_that_never_ran_lags_by_all_records(make_mirrored: MakeMirrored) -> None:
    mirrored = make_mirrored()
    topic = mirrored.make("orders", 2)
    fill(mirrored.bootstrap, topic, [b"1", b"2"], partition=0)
    fill(mirrored.bootstrap, topic, [b"3"], partition=1)

    status = read_status(mirrored.options)

    lags = {partition: one.lag for partition, one in status.partitions.items()}
    assert lags == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1}
    assert (status.lag, status.rows) == (3, 0)
