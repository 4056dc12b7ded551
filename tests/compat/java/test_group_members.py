"""Java consumers in groups of several, classic protocol: two versions, their assignors, churn and crashes.

A job consumes, processes and commits. It sees each record at least once, and exactly once when nothing is
killed; no partition is ever owned by two.
"""

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat import command_line
from tests.compat.java.group_members import JavaMembers, Story, clients_classpath
from tests.compat.java.jars import why_no_java
from tests.compat.servers import Server
from tests.integration.cluster.conftest import Cluster, eventually, written

pytestmark = [pytest.mark.java, pytest.mark.slow]

PARTITIONS = 12
ASSIGNOR = "org.apache.kafka.clients.consumer.{}Assignor"
NEWEST, OLDER = "4.3.1", "3.9.1"

StartJvm = Callable[..., JavaMembers]


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def jvm(story: Story, tmp_path: Path) -> Iterator[StartJvm]:
    """Starts JVMs for members: `jvm(bootstrap, version)`."""
    started: list[JavaMembers] = []

    def start(bootstrap: str, version: str = NEWEST) -> JavaMembers:
        classpath = None if why_no_java() else clients_classpath(version)
        if classpath is None:
            pytest.skip(why_no_java() or f"Maven does not resolve kafka-clients {version}")
        started.append(JavaMembers(classpath, story, bootstrap, tmp_path / f"jvm-{len(started)}.log"))
        return started[-1]

    yield start
    for one in started:
        one.kill()


class Feed:
    """Numbered records into a topic, all the time until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self.delivered: set[str] = set()
        self.problems: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        self._topic, self._stopping = topic, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.02):
            for _ in range(5):
                partition = self.sent % PARTITIONS
                self._producer.produce(
                    self._topic, str(self.sent).encode(), partition=partition, on_delivery=self._note
                )
                self.sent += 1
            self._producer.poll(0)

    def _note(self, error: object, message: Message) -> None:
        if error is None:
            self.delivered.add((message.value() or b"").decode())
        else:
            self.problems.append(f"{message.value()!r} to {message.partition()}: {error}")

    def stop(self) -> set[str]:
        """All that was sent, which the cluster has."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.problems, self.problems
        return self.delivered


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


@pytest.mark.parametrize("version", [NEWEST, OLDER])
@pytest.mark.parametrize("assignor", ["Range", "RoundRobin", "CooperativeSticky"])
def test_members_come_and_go(
    bootstrap: str, story: Story, jvm: StartJvm, version: str, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = jvm(bootstrap, version)
    feed = Feed(bootstrap, topic)
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
    feed = Feed(bootstrap, topic)

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
    feed = Feed(bootstrap, topic)
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
    feed = Feed(bootstrap, topic)
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


# ---- the consumer protocol, of Apache Kafka ------------------------------------------------------


def test_ottla_describes_groups_of_kip_848(reference: Server, story: Story, jvm: StartJvm) -> None:
    topic, group = make_topic(reference.bootstrap), f"group-{uuid4().hex[:8]}"
    members = jvm(reference.bootstrap)
    for name in ("m0", "m1"):
        members.start(name, group, topic, group_protocol="consumer")
    story.wait_for_shares(even_shares(2), of=PARTITIONS)

    def told(*arguments: str) -> Any:
        return json.loads(ottla(reference, "group", *arguments, "--output", "json"))

    eventually(lambda: told("describe", group)[0]["state"] == "Stable", "the group is stable", 60)
    [described] = told("describe", group)
    assert (described["type"], described["assignor"], described["epoch"] > 0) == ("consumer", "uniform", True)
    assert {one["client"]: len(one["partitions"]) for one in described["members"]} == {"m0": 6, "m1": 6}
    assert len(described["partitions"]) == PARTITIONS
    assert group in [one["group"] for one in told("list", "--type", "consumer", "--state", "stable")]
    refused = ottla(reference, "group", "reset", group, "--to-earliest", "--topic", topic, code=1)
    assert f"Group {group} is active (Stable)" in refused and "m1 at 127.0.0.1" in refused

    for name in ("m0", "m1"):
        members.close(name)
    ottla(reference, "group", "reset", group, "--to-earliest", "--topic", topic, "--execute")
    assert {one["committed"] for one in told("lag", group)[0]["partitions"]} == {0}
    assert ottla(reference, "group", "delete", group) == f"deleted {group}\n"


def ottla(server: Server, *arguments: str, code: int = 0) -> str:
    return command_line.ottla(server.bootstrap, *arguments, code=code)


# ---- from one protocol to the other ------------------------------------------------------------------------


class ConfluentMember(threading.Thread):
    """A member by librdkafka, of the consumer protocol; it tells what Java's members tell."""

    def __init__(self, story: Story, bootstrap: str, name: str, group: str, topic: str) -> None:
        super().__init__()
        self._story, self._member = story, name
        self._stopping = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumer = Consumer(settings)
        self._tell("started")
        self._consumer.subscribe(
            [topic],
            on_assign=partial(self._listen, "assigned"),
            on_revoke=partial(self._listen, "revoked"),
            on_lost=partial(self._listen, "lost"),
        )
        self.start()

    def _tell(self, event: str, **more: Any) -> None:
        told = {"at": int(time.monotonic() * 1000), "member": self._member, "event": event, **more}
        self._story.note(told)

    def _listen(self, event: str, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._tell(event, partitions=[f"{one.topic}-{one.partition}" for one in partitions])

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                for message in self._consumer.consume(100, 0.2):
                    self._process(message)
            self._consumer.close()
            self._tell("closed")
        except KafkaException as error:
            self._tell("failed", error=str(error))

    def _process(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        place = f"{message.topic()}-{message.partition()}"
        self._tell("polled", records=[[place, message.offset(), (message.value() or b"").decode()]])
        self._consumer.commit(message, asynchronous=False)

    def close(self) -> None:
        self._stopping.set()
        self.join()


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_members_change_their_protocol_one_by_one_and_back(
    bootstrap: str, story: Story, jvm: StartJvm, assignor: str
) -> None:
    topic, group = make_topic(bootstrap), f"group-{uuid4().hex[:8]}"
    members = jvm(bootstrap)
    feed = Feed(bootstrap, topic)
    classic = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}
    closers: dict[str, Callable[[], None]] = {}

    def replace(old: str, name: str, **settings: str) -> None:
        """One more member, then one less."""
        if settings == {"by": "librdkafka"}:
            closers[name] = ConfluentMember(story, bootstrap, name, group, topic).close
        else:
            members.start(name, group, topic, **settings)
            closers[name] = partial(members.close, name)
        story.wait_for_shares(even_shares(4), of=PARTITIONS)
        closers.pop(old)()
        story.wait_for_shares(even_shares(3), of=PARTITIONS)

    for number in range(3):
        members.start(f"old{number}", group, topic, **classic)
        closers[f"old{number}"] = partial(members.close, f"old{number}")
    story.wait_for_shares(even_shares(3), of=PARTITIONS)
    kinds = [kind_of(bootstrap, group)]
    replace("old0", "new0", group_protocol="consumer")
    replace("old1", "new1", by="librdkafka")
    replace("old2", "new2", group_protocol="consumer")
    kinds.append(kind_of(bootstrap, group))
    for number in range(3):
        replace(f"new{number}", f"again{number}", **classic)
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


@pytest.mark.parametrize(
    ("assignor", "newcomer"),
    [("Range", "classic"), ("CooperativeSticky", "consumer")],
    ids=["while a member joins", "while the group changes its protocol"],
)
def test_the_coordinator_is_killed(
    three: Cluster, story: Story, jvm: StartJvm, assignor: str, newcomer: str
) -> None:
    topic, group = make_topic(three.bootstrap, replicas=3), f"group-{uuid4().hex[:8]}"
    members = jvm(three.bootstrap)
    feed = Feed(three.bootstrap, topic)
    settings = {"partition_assignment_strategy": ASSIGNOR.format(assignor)}
    for number in range(3):
        members.start(f"m{number}", group, topic, **settings)
    story.wait_for_shares(even_shares(3), of=PARTITIONS)

    coordinator = coordinator_of(three, group)
    if newcomer == "consumer":
        settings = {"group_protocol": newcomer}
    members.start("m3", group, topic, **settings)
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
    assert kind_of(three.bootstrap, group) == newcomer
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
