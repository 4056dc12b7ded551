"""Java consumers in groups of several, classic protocol: two versions, their assignors, churn and crashes.

A job consumes, processes and commits. It sees each record at least once, and exactly once when nothing is
killed; no partition is ever owned by two.
"""

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import command_line
from tests.compat.group_feed import Feed
from tests.compat.group_fleet import python_command
from tests.compat.group_members import MembersOfOneStory
from tests.compat.group_story import Story
from tests.compat.java.group_members import clients_classpath, java_command
from tests.compat.java.jars import why_no_java
from tests.integration.cluster.conftest import Cluster, eventually, written

pytestmark = [pytest.mark.java, pytest.mark.slow]

PARTITIONS = 12
ASSIGNOR = "org.apache.kafka.clients.consumer.{}Assignor"
NEWEST, OLDER = "4.3.1", "3.9.1"

StartJvm = Callable[..., MembersOfOneStory]


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def jvm(story: Story, tmp_path: Path) -> Iterator[StartJvm]:
    """Starts JVMs for members: `jvm(bootstrap, version)`."""
    started: list[MembersOfOneStory] = []

    def start(bootstrap: str, version: str = NEWEST) -> MembersOfOneStory:
        classpath = None if why_no_java() else clients_classpath(version)
        if classpath is None:
            pytest.skip(why_no_java() or f"Maven does not resolve kafka-clients {version}")
        started.append(
            MembersOfOneStory(java_command(classpath), story, bootstrap, tmp_path / f"jvm-{len(started)}.log")
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()


def make_topic(bootstrap: str, replicas: int = 1) -> str:
    name = f"members-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, replicas)])[name].result(30)
    return name


def even_shares(members: int) -> list[int]:
    share, more = divmod(PARTITIONS, members)
    return [share + (number < more) for number in range(members)]


def finish(story: Story, feed: Feed) -> set[str]:
    """Stop the feed; what it sent, all of which was consumed."""
    sent = feed.stop()
    story.wait(lambda told: told.polled.keys() >= sent, f"all of {len(sent)} records are consumed")
    return sent


# Of the newest, the other two assignors are in tests/compat/test_groups_of_every_client.py.
@pytest.mark.parametrize(
    ("version", "assignor"),
    [(NEWEST, "RoundRobin"), (OLDER, "Range"), (OLDER, "RoundRobin"), (OLDER, "CooperativeSticky")],
)
def test_members_come_and_go(
    bootstrap: str, story: Story, jvm: StartJvm, version: str, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = jvm(bootstrap, version)
    feed = Feed(bootstrap, topic, PARTITIONS)
    settings = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}

    for count in (1, 2, 3, 4):
        members.start(f"m{count}", group, topic, **settings)
        story.wait_for_shares(even_shares(count), of=PARTITIONS)
    for count in (3, 2):
        members.close(f"m{count + 1}")
        story.wait_for_shares(even_shares(count), of=PARTITIONS)
    sent = finish(story, feed)

    assert story.polled.keys() == sent and set(story.polled.values()) == {1}, "exactly once"
    story.check_no_partition_was_owned_twice()


def test_ten_members_of_two_versions_join_at_once(bootstrap: str, story: Story, jvm: StartJvm) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    jvms = [jvm(bootstrap, NEWEST), jvm(bootstrap, OLDER)]
    feed = Feed(bootstrap, topic, PARTITIONS)

    for number in range(10):
        jvms[number % 2].start(f"m{number}", group, topic)
    story.wait_for_shares(even_shares(10), of=PARTITIONS)
    for number in range(5):
        jvms[number % 2].close(f"m{number}")
    story.wait_for_shares(even_shares(5), of=PARTITIONS)
    sent = finish(story, feed)

    assert story.polled.keys() == sent and set(story.polled.values()) == {1}, "exactly once"
    story.check_no_partition_was_owned_twice()


def test_crashed_members_are_replaced(bootstrap: str, story: Story, jvm: StartJvm) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    staying, dying = jvm(bootstrap), jvm(bootstrap)
    feed = Feed(bootstrap, topic, PARTITIONS)
    staying.start("m0", group, topic)
    dying.start("m1", group, topic)
    dying.start("m2", group, topic)
    story.wait_for_shares(even_shares(3), of=PARTITIONS)

    dying.kill()
    story.wait_for_shares(even_shares(1), of=PARTITIONS)
    staying.start("m3", group, topic)
    story.wait_for_shares(even_shares(2), of=PARTITIONS)
    sent = finish(story, feed)

    assert story.polled.keys() == sent, "at least once"
    story.check_no_partition_was_owned_twice()


def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, story: Story, jvm: StartJvm) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members, restarted = jvm(bootstrap), jvm(bootstrap)
    feed = Feed(bootstrap, topic, PARTITIONS)
    patient = {"session_timeout_ms": "30000"}
    members.start("m0", group, topic, group_instance_id="zero", **patient)
    restarted.start("m1", group, topic, group_instance_id="one", **patient)
    story.wait_for_shares(even_shares(2), of=PARTITIONS)
    had, rebalances = set(story.owned["m1"]), story.rebalances["m0"]

    restarted.kill()
    again = jvm(bootstrap)
    again.start("m1", group, topic, group_instance_id="one", **patient)
    story.wait_for_shares(even_shares(2), of=PARTITIONS)
    sent = finish(story, feed)

    assert story.owned["m1"] == had and story.rebalances["m0"] == rebalances
    assert story.polled.keys() == sent, "at least once"
    story.check_no_partition_was_owned_twice()


# ---- from one protocol to the other ------------------------------------------------------------------------


@pytest.fixture
def librdkafka(bootstrap: str, story: Story, tmp_path: Path) -> Iterator[MembersOfOneStory]:
    """A process for members of confluent-kafka."""
    members = MembersOfOneStory(python_command("confluent"), story, bootstrap, tmp_path / "librdkafka.log")
    yield members
    members.kill()


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_members_change_their_protocol_one_by_one_and_back(
    bootstrap: str, story: Story, jvm: StartJvm, librdkafka: MembersOfOneStory, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = jvm(bootstrap)
    feed = Feed(bootstrap, topic, PARTITIONS)
    classic = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}
    processes: dict[str, MembersOfOneStory] = {}

    def start(name: str, process: MembersOfOneStory, **settings: str) -> None:
        process.start(name, group, topic, **settings)
        processes[name] = process

    def replace(old: str, name: str, process: MembersOfOneStory, **settings: str) -> None:
        """One more member, then one less."""
        start(name, process, **settings)
        story.wait_for_shares(even_shares(4), of=PARTITIONS)
        processes.pop(old).close(old)
        story.wait_for_shares(even_shares(3), of=PARTITIONS)

    for number in range(3):
        start(f"old{number}", members, **classic)
    story.wait_for_shares(even_shares(3), of=PARTITIONS)
    kinds = [kind_of(bootstrap, group)]
    replace("old0", "new0", members, group_protocol="consumer")
    replace("old1", "new1", librdkafka, group_protocol="consumer")
    replace("old2", "new2", members, group_protocol="consumer")
    kinds.append(kind_of(bootstrap, group))
    for number in range(3):
        replace(f"new{number}", f"again{number}", members, **classic)
    kinds.append(kind_of(bootstrap, group))
    sent = finish(story, feed)

    assert kinds == ["classic", "consumer", "classic"]
    assert story.polled.keys() == sent and set(story.polled.values()) == {1}, "exactly once"
    story.check_no_partition_was_owned_twice()


def kind_of(bootstrap: str, group: str) -> str:
    listed = json.loads(command_line.ottla(bootstrap, "group", "list", "--output", "json"))
    return next(str(one["type"]) for one in listed if one["group"] == group)


# ---- three nodes ---------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    quick = [f"group.consumer.{limit}heartbeat.interval.ms=500" for limit in ("", "min.")]
    safe = ["offsets.topic.replication.factor=3", "min.insync.replicas=2"]
    cluster = written(tmp_path / "three", 3, *safe, *quick)
    cluster.start(0, 1, 2)
    yield cluster
    cluster.stop()


def test_the_coordinator_is_killed_while_a_group_changes_its_protocol(
    three: Cluster, story: Story, jvm: StartJvm
) -> None:
    topic, group = make_topic(three.bootstrap, replicas=3), f"group-{uuid4().hex[:8]}"
    members = jvm(three.bootstrap)
    feed = Feed(three.bootstrap, topic, PARTITIONS)
    settings = {"partition_assignment_strategy": ASSIGNOR.format("CooperativeSticky")}
    for number in range(3):
        members.start(f"m{number}", group, topic, **settings)
    story.wait_for_shares(even_shares(3), of=PARTITIONS)

    coordinator = coordinator_of(three, group)
    members.start("m3", group, topic, group_protocol="consumer")
    # The rebalance under way is another coordinator's to end; on a busy machine it may have ended.
    eventually(
        lambda: state_of(three, group) != "STABLE" or len(story.owned.get("m3", ())) > 0, "a rebalance", 60
    )
    three.kill(coordinator)
    story.wait_for_shares(even_shares(4), of=PARTITIONS)
    three.start(coordinator)
    members.close("m0")
    story.wait_for_shares(even_shares(3), of=PARTITIONS)
    sent = finish(story, feed)

    assert story.polled.keys() == sent, "at least once"
    assert kind_of(three.bootstrap, group) == "consumer"
    eventually(lambda: committed_of(three, group, topic) == ends_of(sent), "all is committed", 60)


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


def ends_of(sent: Collection[str]) -> list[int]:
    return [len(range(partition, len(sent), PARTITIONS)) for partition in range(PARTITIONS)]
