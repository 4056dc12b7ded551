"""Java consumers in groups of several, classic protocol: two versions, their assignors, churn and crashes.

A job consumes, processes and commits. It sees each record at least once, and exactly once if no member is
killed. A partition never has two owners.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import command_line
from tests.compat.group_feed import Feed
from tests.compat.group_fleet import PARTITIONS, ends, python_command
from tests.compat.group_history import GroupHistory
from tests.compat.group_members import Members, MembersOfOneHistory
from tests.compat.java.group_members import java_command
from tests.compat.java.jars import KAFKA, OLDER_CLIENTS, reason_to_skip
from tests.compat.servers import StartNode
from tests.cpu_time import cpu_seconds_of
from tests.integration.cluster.conftest import Cluster, eventually, write_cluster

pytestmark = [pytest.mark.java, pytest.mark.slow]

ASSIGNOR = "org.apache.kafka.clients.consumer.{}Assignor"
FEED_PAUSE_S = 0.1
IDLE_S = 4.0
NEWEST, OLDER = "4.3.1", "3.9.2"
CLIENTS = {NEWEST: KAFKA, OLDER: OLDER_CLIENTS}

LIBRDKAFKA = "confluent"

MembersOf = Callable[..., MembersOfOneHistory]


@pytest.fixture
def history() -> GroupHistory:
    return GroupHistory()


@pytest.fixture(scope="module")
def processes(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Members]]:
    """Give a function that returns the process with members of this Java version, or of librdkafka."""
    started: dict[str, Members] = {}
    logs = tmp_path_factory.mktemp("members")

    def process(clients: str) -> Members:
        if clients not in started:
            command = python_command(clients) if clients == LIBRDKAFKA else java_of(clients)
            started[clients] = Members(command, bootstrap, logs / f"{clients}.log")
        return started[clients]

    yield process
    for one in started.values():
        one.kill()


def java_of(version: str) -> list[str]:
    if (reason := reason_to_skip(CLIENTS[version])) is not None:
        pytest.skip(reason)
    return java_command(CLIENTS[version])


@pytest.fixture
def members_of(processes: Callable[[str], Members], history: GroupHistory) -> Iterator[MembersOf]:
    """Give a function that returns members of this history; all of them leave at its end."""
    used: list[MembersOfOneHistory] = []

    def members(bootstrap: str, clients: str = NEWEST) -> MembersOfOneHistory:
        used.append(MembersOfOneHistory(processes(clients), history, bootstrap))
        return used[-1]

    yield members
    for one in used:
        one.close()


@pytest.fixture
def killed_members(bootstrap: str, history: GroupHistory, tmp_path: Path) -> Iterator[MembersOfOneHistory]:
    """Members in a JVM of the test's own, which the test may kill."""
    jvm = Members(java_of(NEWEST), bootstrap, tmp_path / "dying.log")
    yield MembersOfOneHistory(jvm, history, bootstrap)
    jvm.kill()


def make_topic(bootstrap: str, replicas: int = 1) -> str:
    name = f"members-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, replicas)])[name].result(30)
    return name


def even_shares(members: int) -> list[int]:
    share, more = divmod(PARTITIONS, members)
    return [share + (number < more) for number in range(members)]


def finish(history: GroupHistory, feed: Feed) -> set[str]:
    """Stop the feed, wait until its records are consumed, and return them."""
    sent = feed.stop()
    history.wait_for_all(sent)
    return sent


# The other two assignors of the newest version are in tests/compat/test_groups_of_every_client.py.
@pytest.mark.parametrize(
    ("version", "assignor"),
    [(NEWEST, "RoundRobin"), (OLDER, "Range"), (OLDER, "RoundRobin"), (OLDER, "CooperativeSticky")],
)
def test_members_come_and_go(
    bootstrap: str, history: GroupHistory, members_of: MembersOf, version: str, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = members_of(bootstrap, version)
    feed = Feed(bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)
    settings = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}

    for count in (1, 2, 3, 4):
        members.start(f"m{count}", group, topic, **settings)
        history.wait_for_shares(even_shares(count), of=PARTITIONS)
    for count in (3, 2):
        members.close(f"m{count + 1}")
        history.wait_for_shares(even_shares(count), of=PARTITIONS)
    sent = finish(history, feed)

    history.check_exactly_once(sent)
    history.check_no_partition_was_owned_twice()


def test_ten_members_of_two_versions_join_at_once(
    bootstrap: str, history: GroupHistory, members_of: MembersOf
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    jvms = [members_of(bootstrap, NEWEST), members_of(bootstrap, OLDER)]
    feed = Feed(bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)

    for number in range(10):
        jvms[number % 2].start(f"m{number}", group, topic)
    history.wait_for_shares(even_shares(10), of=PARTITIONS)
    for number in range(5):
        jvms[number % 2].close(f"m{number}")
    history.wait_for_shares(even_shares(5), of=PARTITIONS)
    sent = finish(history, feed)

    history.check_exactly_once(sent)
    history.check_no_partition_was_owned_twice()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_without_records_stays_idle(
    start_node: StartNode,
    history: GroupHistory,
    processes: Callable[[str], Members],
    members_of: MembersOf,
    tmp_path: Path,
    protocol: str,
) -> None:
    """If a heartbeat is answered later than the next one is due, Java's consumer loops without a pause."""
    bootstrap = start_node(tmp_path).bootstrap  # with the default intervals
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    pid = processes(NEWEST).process.pid

    members_of(bootstrap).start("m0", group, topic, group_protocol=protocol)
    history.wait_for_shares(even_shares(1), of=PARTITIONS)
    time.sleep(1.5)  # the work that follows the assignment is done
    before_s = cpu_seconds_of(pid)
    time.sleep(IDLE_S)

    assert cpu_seconds_of(pid) - before_s < IDLE_S / 4, "it uses 0.02 cores, or 1.6 without a pause"


def test_crashed_members_are_replaced(
    bootstrap: str, history: GroupHistory, members_of: MembersOf, killed_members: MembersOfOneHistory
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    staying = members_of(bootstrap)
    feed = Feed(bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)
    staying.start("m0", group, topic)
    killed_members.start("m1", group, topic)
    killed_members.start("m2", group, topic)
    history.wait_for_shares(even_shares(3), of=PARTITIONS)

    killed_members.kill()
    history.wait_for_shares(even_shares(1), of=PARTITIONS)
    staying.start("m3", group, topic)
    history.wait_for_shares(even_shares(2), of=PARTITIONS)
    sent = finish(history, feed)

    assert history.polled.keys() == sent, "at least once"
    history.check_no_partition_was_owned_twice()


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, history: GroupHistory, members_of: MembersOf, killed_members: MembersOfOneHistory
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = members_of(bootstrap)
    feed = Feed(bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)
    patient = {"session_timeout_ms": "30000"}
    members.start("m0", group, topic, group_instance_id="zero", **patient)
    killed_members.start("m1", group, topic, group_instance_id="one", **patient)
    history.wait_for_shares(even_shares(2), of=PARTITIONS)
    had, rebalances = set(history.owned["m1"]), history.rebalances["m0"]

    killed_members.kill()
    members.start("m1", group, topic, group_instance_id="one", **patient)
    history.wait_for_shares(even_shares(2), of=PARTITIONS)
    sent = finish(history, feed)

    assert history.owned["m1"] == had and history.rebalances["m0"] == rebalances
    assert history.polled.keys() == sent, "at least once"
    history.check_no_partition_was_owned_twice()


# ---- from one protocol to the other ------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_members_change_their_protocol_one_by_one_and_back(
    bootstrap: str, history: GroupHistory, members_of: MembersOf, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members, librdkafka = members_of(bootstrap), members_of(bootstrap, LIBRDKAFKA)
    feed = Feed(bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)
    classic = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}
    processes: dict[str, MembersOfOneHistory] = {}

    def start(name: str, process: MembersOfOneHistory, **settings: str) -> None:
        process.start(name, group, topic, **settings)
        processes[name] = process

    def replace(old: str, name: str, process: MembersOfOneHistory, **settings: str) -> None:
        """Start a member, then close another."""
        start(name, process, **settings)
        history.wait_for_shares(even_shares(4), of=PARTITIONS)
        processes.pop(old).close(old)
        history.wait_for_shares(even_shares(3), of=PARTITIONS)

    for number in range(3):
        start(f"old{number}", members, **classic)
    history.wait_for_shares(even_shares(3), of=PARTITIONS)
    kinds = [kind_of(bootstrap, group)]
    replace("old0", "new0", members, group_protocol="consumer")
    replace("old1", "new1", librdkafka, group_protocol="consumer")
    replace("old2", "new2", members, group_protocol="consumer")
    kinds.append(kind_of(bootstrap, group))
    for number in range(3):
        replace(f"new{number}", f"again{number}", members, **classic)
    kinds.append(kind_of(bootstrap, group))
    sent = finish(history, feed)

    assert kinds == ["classic", "consumer", "classic"]
    history.check_exactly_once(sent)
    history.check_no_partition_was_owned_twice()


def kind_of(bootstrap: str, group: str) -> str:
    listed = json.loads(command_line.ottla(bootstrap, "group", "list", "--output", "json"))
    return next(str(one["type"]) for one in listed if one["group"] == group)


# ---- three nodes ---------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    quick = [f"group.consumer.{limit}heartbeat.interval.ms=500" for limit in ("", "min.")]
    safe = ["offsets.topic.replication.factor=3", "min.insync.replicas=2"]
    cluster = write_cluster(tmp_path / "three", 3, *safe, *quick)
    cluster.start(0, 1, 2)
    yield cluster
    cluster.stop()


def test_the_coordinator_is_killed_while_a_group_changes_its_protocol(
    three: Cluster, history: GroupHistory, members_of: MembersOf
) -> None:
    topic, group = make_topic(three.bootstrap, replicas=3), f"group-{uuid4().hex[:8]}"
    members = members_of(three.bootstrap)
    feed = Feed(three.bootstrap, topic, PARTITIONS, pause_s=FEED_PAUSE_S)
    settings = {"partition_assignment_strategy": ASSIGNOR.format("CooperativeSticky")}
    for number in range(3):
        members.start(f"m{number}", group, topic, **settings)
    history.wait_for_shares(even_shares(3), of=PARTITIONS)

    coordinator = coordinator_of(three, group)
    members.start("m3", group, topic, group_protocol="consumer")
    # The next coordinator has to end the rebalance; on a busy machine it may have ended already.
    eventually(
        lambda: state_of(three, group) != "STABLE" or len(history.owned.get("m3", ())) > 0, "a rebalance", 60
    )
    three.kill(coordinator)
    history.wait_for_shares(even_shares(4), of=PARTITIONS)
    three.start(coordinator)
    members.close("m0")
    history.wait_for_shares(even_shares(3), of=PARTITIONS)
    sent = finish(history, feed)

    assert history.polled.keys() == sent, "at least once"
    assert kind_of(three.bootstrap, group) == "consumer"
    eventually(lambda: committed_of(three, group, topic) == ends(len(sent)), "all is committed", 60)


def state_of(cluster: Cluster, group: str) -> str:
    described = cluster.admin().describe_consumer_groups([group])[group].result(30)
    return str(described.state.name)


def coordinator_of(cluster: Cluster, group: str) -> int:
    described = cluster.admin().describe_consumer_groups([group])[group].result(30)
    assert described.coordinator is not None
    return int(described.coordinator.id)


def committed_of(cluster: Cluster, group: str, topic: str) -> list[int]:
    wanted = [ConsumerGroupTopicPartitions(group)]
    found = cluster.admin().list_consumer_group_offsets(wanted)[group].result(30).topic_partitions
    return [one.offset for one in sorted(found, key=lambda one: one.partition) if one.topic == topic]
