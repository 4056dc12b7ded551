"""Groups of other people's clients on three nodes: members join, leave and crash, and a broker dies.

All groups read one topic. Each group is made of one client, in two processes, of which one will be killed.
While none is killed, a job that consumes, processes and commits sees each record exactly once, afterwards at
least once. No partition is read by two members of a generation. `scripts/chaos --members` repeats the faults
for any length of time.
"""

from collections.abc import Iterator

import pytest

from tests.compat.group_feed import Feed
from tests.compat.group_fleet import (
    DYING,
    KINDS,
    OVERRIDES,
    PARTITIONS,
    STAYING,
    TOPIC,
    Fleet,
    Group,
    create_topic,
    judge_at_least_once,
    leader_of_offsets,
)
from tests.integration.cluster.conftest import Cluster, written

pytestmark = pytest.mark.slow
PAUSE_S = 0.4  # the load stays low, since the test checks rules; scripts/chaos --members makes more


class Played:
    """The outcome of the groups: reasons for missing clients, and the failure of each group by act."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}
        self.while_nobody_is_killed: dict[str, str] = {}
        self.after_that: dict[str, str] = {}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Run both acts, once for all tests."""
    data = tmp_path_factory.mktemp("every-client")
    cluster = written(data, 3, *OVERRIDES)
    cluster.start(0, 1, 2)
    create_topic(cluster)
    fleet = Fleet(KINDS, cluster.bootstrap, data)
    try:
        yield play(cluster, fleet)
    finally:
        fleet.stop()
        cluster.stop()


def play(cluster: Cluster, fleet: Fleet) -> Played:
    played = Played()
    played.skipped = fleet.skipped
    first = come_and_go(cluster, fleet)
    played.while_nobody_is_killed = failures(fleet)
    crash_and_recover(cluster, fleet, first)
    played.after_that = failures(fleet)
    return played


def failures(fleet: Fleet) -> dict[str, str]:
    return {group.kind.label: group.failure for group in fleet.groups if group.failure is not None}


def come_and_go(cluster: Cluster, fleet: Fleet) -> int:
    """Grow each group from one member to all, replace some, and return the number of records sent."""
    feed = Feed(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=PAUSE_S)

    def one(group: Group) -> None:
        group.start(STAYING)
        group.settle()

    def all_of_them(group: Group) -> None:
        for number in range(group.kind.size - 1):
            group.start(DYING if number % 2 else STAYING)
        group.settle()

    def one_leaves_and_another_comes(group: Group) -> None:
        closed = group.begin_to_close()
        group.wait_until_closed(closed)
        group.settle()
        group.start(STAYING)
        group.settle()

    for act in (one, all_of_them, one_leaves_and_another_comes):
        fleet.each(act)
    sent = feed.stop()

    def judge(group: Group) -> None:
        group.story.wait_for_all(sent)
        group.story.check_exactly_once(sent)
        group.story.check_no_partition_was_owned_twice()
        group.story.check_no_partition_had_two_readers()

    fleet.each(judge)
    return len(sent)


def crash_and_recover(cluster: Cluster, fleet: Fleet, first: int) -> None:
    """Crash members, and the coordinator of all groups while others join."""
    feed = Feed(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=PAUSE_S, first=first)
    coordinator = leader_of_offsets(cluster)

    fleet.each(lambda group: group.start(STAYING))
    fleet.crash(*fleet.clients)
    cluster.kill(coordinator)
    fleet.each(lambda group: group.settle())
    cluster.start(coordinator)

    def one_leaves(group: Group) -> None:
        closed = group.begin_to_close()
        group.wait_until_closed(closed)
        group.settle()

    fleet.each(one_leaves)
    sent = feed.stop()
    every = {str(number) for number in range(first + len(sent))}
    fleet.each(lambda group: judge_at_least_once(cluster, group, every))


@pytest.mark.parametrize("label", [kind.label for kind in KINDS])
def test_each_record_exactly_once_while_members_come_and_go(played: Played, label: str) -> None:
    if label in played.skipped:
        pytest.skip(played.skipped[label])

    assert played.while_nobody_is_killed.get(label) is None


@pytest.mark.parametrize("label", [kind.label for kind in KINDS])
def test_each_record_at_least_once_when_members_crash_and_their_coordinator_is_killed(
    played: Played, label: str
) -> None:
    if label in played.skipped:
        pytest.skip(played.skipped[label])

    assert played.after_that.get(label) is None
