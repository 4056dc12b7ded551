"""Dead letters are produced at the leader of their partition: this node or another one."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.letter_producer import ANSWER_S, DOUBTFUL_PURPOSE, PURPOSE, LetterProducer
from ottla.node.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld


class World(ReplicaWorld):
    """A node with a topic for dead letters, and the answers of the other leader."""

    def __init__(self, leader: int = NODE_ID) -> None:
        super().__init__()
        replicas = (NODE_ID,) if leader == NODE_ID else (OTHER_ID,)
        self.topic = self.create_topic("dlq.t", leader=leader, replicas=replicas)
        self.code = int(ErrorCode.NONE)
        self.index = 0
        self.requests: list[tuple[int, str, ProduceRequest]] = []
        self.timeouts_s: list[float] = []
        self._send = LetterProducer(
            node_id=NODE_ID,
            image=lambda: self.metadata.image,
            replicas=self.replica_manager,
            ask=self.ask,
            in_thread=asyncio.to_thread,
            clock=self.clock,
            timeout_ms=lambda: 50,
            is_cut_off=lambda: self.is_cut_off,
        )

    async def ask(
        self, node_id: int, purpose: str, request: Any, response_type: type[Any], timeout_s: float
    ) -> Any:
        self.requests.append((node_id, purpose, request))
        self.timeouts_s.append(timeout_s)
        one = PartitionProduceResponse(index=self.index, error_code=self.code, base_offset=0)
        return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[one])])

    def produce(self, batch: bytearray, index: int = 0, topic_id: bytes | None = None) -> None:
        async def run() -> None:
            await self._send(topic_id or self.topic.topic_id, index, batch)

        asyncio.run(run())


def letters(epoch: int = 0) -> bytearray:
    rows = [(None, None, 1_700_000_000_000, (("h", b"x"),))] * 2
    return build_batch(rows, producer_id=5, producer_epoch=epoch, base_sequence=0)


def test_the_log_of_this_node_has_a_batch_once() -> None:
    world = World()

    world.produce(letters())
    world.produce(letters())
    world.produce(letters(epoch=1))

    assert world.partition("dlq.t").log.log_end_offset == 4
    with pytest.raises(KafkaError) as refused:
        world.produce(letters(epoch=0))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_another_leader_gets_the_request_that_kafka_would_send() -> None:
    world = World(leader=OTHER_ID)
    batch = letters()

    world.produce(batch)

    [(node_id, purpose, request)] = world.requests
    assert (node_id, purpose, request.acks) == (OTHER_ID, PURPOSE, -1)
    [topic] = request.topic_data
    assert (topic.name, topic.topic_id) == ("dlq.t", world.topic.topic_id)
    assert [(one.index, one.records) for one in topic.partition_data] == [(0, bytes(batch))]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (31_999, ErrorCode.UNKNOWN_SERVER_ERROR),  # a code of a later release
    ],
)
def test_errors_of_the_leader_are_raised(code: int, expected: ErrorCode) -> None:
    world = World(leader=OTHER_ID)
    world.code = code

    with pytest.raises(KafkaError) as refused:
        world.produce(letters())

    assert refused.value.code is expected


def test_after_a_failure_another_connection_is_used_that_holds_up_no_others() -> None:
    world = World(leader=OTHER_ID)
    world.code = int(ErrorCode.REQUEST_TIMED_OUT)
    with pytest.raises(KafkaError):
        world.produce(letters())
    world.code = int(ErrorCode.NONE)

    world.produce(letters())
    world.produce(letters(epoch=1))

    assert [purpose for _, purpose, _ in world.requests] == [PURPOSE, DOUBTFUL_PURPOSE, PURPOSE]


def test_the_request_waits_longer_than_the_leader_waits_for_its_replicas() -> None:
    world = World(leader=OTHER_ID)

    world.produce(letters())

    [(_, _, request)] = world.requests
    assert (request.timeout_ms, world.timeouts_s) == (50, [0.05 + ANSWER_S])


def test_an_answer_about_another_partition_is_an_error() -> None:
    world = World(leader=OTHER_ID)
    world.index = 1

    with pytest.raises(KafkaError, match="no result for this partition"):
        world.produce(letters())


def test_without_a_topic_a_partition_or_a_leader_nothing_is_sent() -> None:
    world = World(leader=-1)
    for index, topic_id, code in (
        (0, bytes(16), ErrorCode.UNKNOWN_TOPIC_ID),
        (7, None, ErrorCode.UNKNOWN_TOPIC_ID),
        (0, None, ErrorCode.LEADER_NOT_AVAILABLE),
    ):
        with pytest.raises(KafkaError) as refused:
            world.produce(letters(), index, topic_id)
        assert refused.value.code is code
    assert not world.requests


def test_a_node_that_is_cut_off_from_the_controller_appends_nothing() -> None:
    world = World()
    world.is_cut_off = True

    with pytest.raises(KafkaError) as refused:
        world.produce(letters())

    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_batch_that_is_not_replicated_in_time_fails() -> None:
    world = World()
    topic = world.create_topic("dlq.two", replicas=(NODE_ID, OTHER_ID))

    with pytest.raises(KafkaError) as refused:
        world.produce(letters(), topic_id=topic.topic_id)

    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
