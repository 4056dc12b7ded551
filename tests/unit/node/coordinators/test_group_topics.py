"""Topics of the metadata as the group coordinator sees them, and their changes."""

import asyncio

import pytest

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.consumer import executor_tasks
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.topics_view import TopicInfo
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import BrokerImage, MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.coordinators.group_runtime import Make
from ottla.node.coordinators.group_topics import ImageTopics, topics_changed
from tests.unit.node.coordinators.group_node import GroupNode, play

TOPIC_ID = b"a" * 16


def topic(*replicas: tuple[int, ...], isr: tuple[int, ...] = (1,), topic_id: bytes = TOPIC_ID) -> TopicImage:
    partitions = tuple(
        PartitionImage(partition=index, replicas=each, isr=isr, leader=1, leader_epoch=0, partition_epoch=0)
        for index, each in enumerate(replicas)
    )
    return TopicImage("a", topic_id, partitions)


def broker(broker_id: int, rack: str | None) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=1,
        incarnation_id=bytes(16),
        listeners={},
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
        features={},
    )


def image(one: TopicImage, racks: dict[int, str | None] | None = None) -> MetadataImage:
    return MetadataImage(
        version=7,
        topics=TopicsImage(by_name={"a": one}, by_id={one.topic_id: one}),
        brokers={broker_id: broker(broker_id, rack) for broker_id, rack in (racks or {}).items()},
    )


def test_a_topic_has_the_racks_of_its_replicas_or_no_racks() -> None:
    one = topic((1, 2), (2, 1), (3,))

    assert ImageTopics(image(one)).by_name("a") == TopicInfo(TOPIC_ID, "a", 3)
    with_racks = ImageTopics(image(one, {1: "x", 2: "y", 3: None}))
    assert with_racks.by_id(TOPIC_ID) == TopicInfo(TOPIC_ID, "a", 3, (("x", "y"), ("x", "y"), ()))
    assert (list(with_racks.names()), with_racks.version) == (["a"], 7)
    assert with_racks.by_name("b") is None and with_racks.by_id(bytes(16)) is None


def changes(before: TopicImage | None, after: TopicImage | None) -> MetadataChanges:
    return MetadataChanges((ChangedTopic(before, after),), frozenset(), frozenset(), features=False)


def test_groups_get_changes_of_partitions_and_replicas_and_no_others() -> None:
    one = topic((1,), (1,))
    now = image(one)

    made = topics_changed(now, changes(None, one))
    grown = topics_changed(now, changes(one, topic((1,), (1,), (1,))))
    moved = topics_changed(now, changes(one, topic((1,), (2,))))
    gone = topics_changed(now, changes(one, None))

    assert made is not None and made.has_new_topics and made.changed == {"a"}
    for change in (grown, moved, gone):
        assert change is not None and not change.has_new_topics and change.changed == {"a"}
    assert topics_changed(now, changes(one, topic((1,), (1,), isr=(1, 2)))) is None


def heartbeat(member_epoch: int, **how: object) -> Make:
    return lambda token: ConsumerGroupHeartbeat(
        token=token,
        group_id="g",
        member_id="m",
        member_epoch=member_epoch,
        **how,  # type: ignore[arg-type]
    )


def test_a_consumer_group_gets_new_topics_and_survives_a_restart() -> None:
    """Expressions are matched in a thread; the next heartbeats bring the topics found."""

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        full = {"subscribed_topic_regex": "t.*", "rebalance_timeout_ms": 60_000, "owned": ()}
        joined = await node.ask("g", heartbeat(0, **full))
        assert isinstance(joined, ConsumerGroupHeartbeatResult) and joined.member_epoch == 1
        answer = await until_assigned(node, 1)
        assert answer.assignment == [TopicPartitions(b"t" * 16, [0, 1])]

        node.add_topic("t", b"t" * 16, partitions=3)
        command = topics_changed(node.image, changes(None, node.image.topics.by_name["t"]))
        assert command is not None
        node.groups.change_topics(command)

        answer = await until_assigned(node, answer.member_epoch)
        assert answer.assignment == [TopicPartitions(b"t" * 16, [0, 1, 2])]

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.add_topic("t", b"t" * 16, partitions=3)
        node.groups.refresh()
        await node.loaded()
        answer = await node.ask(
            "g", heartbeat(0, subscribed_topic_names=["t"], rebalance_timeout_ms=1, owned=())
        )
        assert answer.assignment[0].partitions == [0, 1, 2]

    first = play(scenario)
    play(after, GroupNode(first.disk))


def test_an_expression_that_takes_too_long_is_logged_and_its_member_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor_tasks, "SLICE_CPU_S", 0.0)
    monkeypatch.setattr(executor_tasks, "MAX_REGEX_CPU_S", -1.0)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        full = {"subscribed_topic_regex": "t.*", "rebalance_timeout_ms": 60_000, "owned": ()}
        await node.ask("g", heartbeat(0, **full))
        while not caplog.messages:
            await asyncio.sleep(0.001)
        assert isinstance(await node.ask("g", heartbeat(1)), ConsumerGroupHeartbeatResult)

    play(scenario)

    assert "The regular expression 't.*' of group 'g' was stopped" in caplog.messages[-1]


def test_a_hostile_expression_is_rejected_with_kafkas_code() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        hostile = "[ab]*a[ab]{100}|(?:.?){690}"
        full = {"subscribed_topic_regex": hostile, "rebalance_timeout_ms": 60_000, "owned": ()}
        answer = await node.ask("g", heartbeat(0, **full))
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert answer.detail.startswith(f"SubscribedTopicRegex `{hostile}` is not a valid regular expression")

    play(scenario)


async def until_assigned(node: GroupNode, member_epoch: int) -> ConsumerGroupHeartbeatResult:
    """Send heartbeats until one brings partitions; return its result."""
    while True:
        node.clock.advance(1_000)
        await asyncio.sleep(0.001)  # a thread matches the expression
        answer = await node.ask("g", heartbeat(member_epoch))
        assert isinstance(answer, ConsumerGroupHeartbeatResult), answer
        if answer.assignment is not None:
            return answer
        member_epoch = answer.member_epoch
