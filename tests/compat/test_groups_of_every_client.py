"""Groups of other people's clients on three nodes: members join, leave and crash, and a broker dies.

All groups read one topic. The members of a group use one client, in two processes, of which one will be
killed. Until then, a job that consumes, processes and commits sees each record exactly once, afterwards at
least once. No partition is read by two members of a generation. `scripts/chaos --members` repeats the faults
for any length of time.
"""

from collections.abc import Iterator

import pytest

from tests.compat.group_feed import Feed
from tests.compat.group_fleet import (
    KILLED,
    KINDS,
    OVERRIDES,
    PARTITIONS,
    STAYING,
    TOPIC,
    Fleet,
    Group,
    check_at_least_once,
    create_topic,
    leader_of_offsets,
)
from tests.integration.cluster.conftest import Cluster, write_cluster

pytestmark = pytest.mark.slow
PAUSE_S = 0.4  # the load stays low, since the test checks rules; scripts/chaos --members makes more


class Outcome:
    """The outcome of the groups: reasons for missing clients, and the failure of each group by act."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}
        self.failed_before_crashes: dict[str, str] = {}
        self.failed_after_crashes: dict[str, str] = {}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Run both acts, once for all tests."""
    data = tmp_path_factory.mktemp("every-client")
    cluster = write_cluster(data, 3, *OVERRIDES)
    cluster.start(0, 1, 2)
    create_topic(cluster)
    fleet = Fleet(KINDS, cluster.bootstrap, data)
    try:
        yield run_acts(cluster, fleet)
    finally:
        fleet.stop()
        cluster.stop()


def run_acts(cluster: Cluster, fleet: Fleet) -> Outcome:
    outcome = Outcome()
    outcome.skipped = fleet.skipped
    first = come_and_go(cluster, fleet)
    outcome.failed_before_crashes = failures(fleet)
    crash_and_recover(cluster, fleet, first)
    outcome.failed_after_crashes = failures(fleet)
    return outcome


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
            group.start(KILLED if number % 2 else STAYING)
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

    def check(group: Group) -> None:
        group.history.wait_for_all(sent)
        group.history.check_exactly_once(sent)
        group.history.check_no_partition_was_owned_twice()
        group.history.check_no_partition_had_two_readers()

    fleet.each(check)
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
    fleet.each(lambda group: check_at_least_once(cluster, group, every))


@pytest.mark.parametrize("label", [kind.label for kind in KINDS])
def test_each_record_is_consumed_exactly_once_while_members_come_and_go(outcome: Outcome, label: str) -> None:
    if label in outcome.skipped:
        pytest.skip(outcome.skipped[label])

    assert outcome.failed_before_crashes.get(label) is None


@pytest.mark.parametrize("label", [kind.label for kind in KINDS])
def test_each_record_is_consumed_at_least_once_when_members_and_the_coordinator_crash(
    outcome: Outcome, label: str
) -> None:
    if label in outcome.skipped:
        pytest.skip(outcome.skipped[label])

    assert outcome.failed_after_crashes.get(label) is None
