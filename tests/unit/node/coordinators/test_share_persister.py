"""The persister asks the coordinator of each share-partition, on any node, until it gets an answer."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateSummary,
    SharePartitionKey,
    StateAnswer,
    StateRead,
    StateRequest,
    StateResult,
    StateSummary,
    WriteState,
    refused,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators import share_persister, share_state_messages
from ottla.node.coordinators.share_persister import JITTER, MAX_PAUSE_S, RETRY_S, SharePersister
from ottla.node.coordinators.share_state_messages import key_of_text
from ottla.node.coordinators.share_state_runtime import Outcome
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from ottla.node.wire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from ottla.node.wire.messages.read_share_group_state import ReadShareGroupStateRequest
from ottla.node.wire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ottla.node.wire.messages.write_share_group_state import WriteShareGroupStateRequest
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.groupcoord.share_state.share_state_world import KEY, ShareStateWorld, batch, key_of, topic_id

HERE, THERE, ELSEWHERE = 1, 2, 3
OTHER = key_of(partition=1)

READERS: dict[type[Any], tuple[Callable[[Any], list[StateRequest]], Callable[[Any], Any]]] = {
    InitializeShareGroupStateRequest: (
        share_state_messages.initializations,
        share_state_messages.initialize_response,
    ),
    ReadShareGroupStateRequest: (share_state_messages.reads, share_state_messages.read_response),
    ReadShareGroupStateSummaryRequest: (
        share_state_messages.summaries,
        share_state_messages.summary_response,
    ),
    WriteShareGroupStateRequest: (share_state_messages.writes, share_state_messages.write_response),
    DeleteShareGroupStateRequest: (share_state_messages.deletions, share_state_messages.delete_response),
}


class Cluster:
    """Coordinators on other nodes and on this one, with one state for all; each can be made to fail."""

    def __init__(self) -> None:
        self.world = ShareStateWorld()
        self.leader = THERE
        self.moved: dict[SharePartitionKey, int] = {}
        self.sent: list[tuple[int, Any]] = []
        self.called: list[StateRequest] = []
        self.failures: list[ErrorCode] = []  # of the next requests
        self.is_slow = False
        self.gate = asyncio.Event()
        self.created = 0

    # ---- requests to coordinators ------------------------------------------------------------------------

    def known_coordinator_of(self, coordinator_key: str) -> int:
        key = key_of_text(coordinator_key)
        assert key is not None
        return self.moved.get(key, self.leader)

    async def coordinator_of(self, coordinator_key: str) -> int:
        self.created += 1
        await asyncio.sleep(0)
        self.leader = HERE
        return HERE

    def submit(self, request: StateRequest) -> "Outcome | asyncio.Future[Outcome]":
        self.called.append(request)
        if self.failures:
            return KafkaError(self.failures.pop(0), "not now")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: future.set_result(self.world.ask(request)))
        return future

    # ---- other nodes -------------------------------------------------------------------------------------

    async def connect(self, node_id: int, purpose: str) -> PeerClient:
        assert purpose == share_persister.PURPOSE
        cluster = self

        class Client:
            async def request(self, message: Any, response_type: type, *, timeout_s: float) -> Any:
                cluster.sent.append((node_id, message))
                if cluster.is_slow:
                    await cluster.gate.wait()
                if cluster.failures:
                    code = cluster.failures.pop(0)
                    if code is ErrorCode.NETWORK_EXCEPTION:
                        raise KafkaError(code, "the connection was lost")
                    answers = [refused(one, code, "not now") for one in READERS[type(message)][0](message)]
                else:
                    answers = [cluster.world.ask(one) for one in READERS[type(message)][0](message)]
                response = READERS[type(message)][1](answers)
                assert isinstance(response, response_type)
                return response

        return cast(PeerClient, Client())


Scenario = Callable[[SharePersister, Cluster], Coroutine[Any, Any, None]]


def play(scenario: Scenario) -> Cluster:
    async def run() -> Cluster:
        cluster = Cluster()
        persister = SharePersister(
            node_id=HERE,
            coordinators=cluster,
            connect=cluster.connect,
            request_timeout_ms=1_000,
            chance=random.Random(1),
        )
        async with asyncio.TaskGroup() as tasks:
            persister.start(tasks.create_task)
            await scenario(persister, cluster)
            persister.close()
        return cluster

    cluster: Cluster = VirtualLoop(random.Random(1)).run(run(), limit_s=60)
    return cluster


@pytest.mark.parametrize("leader", [HERE, THERE])
def test_every_request_reaches_the_coordinator_and_its_answer_comes_back(leader: int) -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.leader = leader
        keys = [KEY, OTHER, key_of(topic=2)]

        begun = await persister.initialize([InitializeState(key, 1, 5) for key in keys])
        batches = (batch(5, 7, 2), batch(9, 9, 3, 2))
        wrote = await persister.write([WriteState(KEY, 1, 0, -1, 3, batches, b"letters")])
        [read] = await persister.read([ReadState(KEY, 2)])
        summaries = await persister.read_summary([ReadStateSummary(key) for key in keys])
        gone = await persister.delete([DeleteState(OTHER)])

        assert begun == [StateResult(key) for key in keys]
        assert wrote == [StateResult(KEY)] and gone == [StateResult(OTHER)]
        assert read.incarnation > 0
        expected = StateRead(KEY, state_epoch=1, start_offset=5, batches=batches, dead_letters=b"letters")
        assert replace(read, incarnation=expected.incarnation) == expected
        assert summaries[0] == StateSummary(
            KEY, state_epoch=1, leader_epoch=2, start_offset=5, delivery_complete_count=3
        )
        assert [one.start_offset for one in summaries] == [5, 5, 5]
        assert list(cluster.world.states) == [KEY, key_of(topic=2)]

    cluster = play(scenario)
    assert bool(cluster.sent) == (leader == THERE) and bool(cluster.called) == (leader == HERE)


def test_questions_of_one_turn_go_in_one_request_for_each_group() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        await asyncio.gather(
            persister.initialize([InitializeState(KEY, 0, 0), InitializeState(OTHER, 0, 0)]),
            persister.initialize([InitializeState(key_of(topic=2), 0, 0)]),
            persister.initialize([InitializeState(key_of("h"), 0, 0)]),
        )

    sent = [message for _, message in play(scenario).sent]
    assert [one.group_id for one in sent] == ["g", "h"]
    assert [[len(topic.partitions) for topic in one.topics] for one in sent] == [[2, 1], [1]]


def test_writes_that_wait_behind_another_become_one() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        await persister.initialize([InitializeState(KEY, 0, 0)])
        cluster.sent.clear()
        cluster.is_slow = True
        writes = [
            asyncio.ensure_future(
                persister.write([WriteState(KEY, 0, 0, max(-1, at - 2), at, (batch(at, at, 2),))])
            )
            for at in range(5)
        ]
        await asyncio.sleep(0.01)
        cluster.gate.set()
        answers = [await write for write in writes]

        assert answers == [[StateResult(KEY)]] * 5

    cluster = play(scenario)
    written = [
        [each.first_offset for each in message.topics[0].partitions[0].state_batches]
        for _, message in cluster.sent
    ]
    assert written == [[0], [1, 2, 3, 4]]
    state = cluster.world.states[KEY]
    assert (state.start_offset, state.delivery_complete_count) == (2, 4)
    assert state.batches == (batch(2, 4, 2),)


def test_joined_writes_have_the_same_result_as_single_ones() -> None:
    """A later write without a start offset keeps the earlier one; one that moves it back stays apart."""

    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        await persister.initialize([InitializeState(KEY, 0, 0)])
        cluster.is_slow = True
        requests = [
            asyncio.ensure_future(persister.write([WriteState(KEY, 0, 0, start, 0, (batch(at, at, 2),))]))
            for at, start in ((0, -1), (1, 7), (8, -1), (9, 3))
        ]
        await asyncio.sleep(0.01)
        cluster.gate.set()
        for one in requests:
            assert await one == [StateResult(KEY)]

    cluster = play(scenario)
    written = [message.topics[0].partitions[0] for _, message in cluster.sent[1:]]
    assert [one.start_offset for one in written] == [-1, 7, 3]
    assert [len(one.state_batches) for one in written] == [1, 2, 1]
    assert cluster.world.states[KEY].batches == (batch(8, 9, 2),)


def test_writes_of_other_epochs_stay_apart_and_in_order() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        await persister.initialize([InitializeState(KEY, 0, 0)])
        cluster.is_slow = True
        requests = [
            asyncio.ensure_future(persister.write([WriteState(KEY, 0, 0, -1, 0, (batch(0, 0, 2),))])),
            asyncio.ensure_future(persister.initialize([InitializeState(KEY, 1, 7)])),
            asyncio.ensure_future(persister.write([WriteState(KEY, 0, 0, -1, 0, (batch(8, 8, 2),))])),
        ]
        await asyncio.sleep(0.01)
        cluster.gate.set()
        [first], [begun], [fenced] = [await one for one in requests]

        assert (first.error, begun.error) == (ErrorCode.NONE, ErrorCode.NONE)
        assert fenced.error is ErrorCode.FENCED_STATE_EPOCH

    play(scenario)


@pytest.mark.parametrize("leader", [HERE, THERE])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    ],
)
def test_requests_with_transient_errors_are_asked_again(leader: int, code: ErrorCode) -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.leader = leader
        cluster.failures = [code] * 2

        [answer] = await persister.initialize([InitializeState(KEY, 0, 0)])

        assert answer == StateResult(KEY)

    cluster = play(scenario)
    assert len(cluster.sent) + len(cluster.called) == 3


def test_the_persister_gives_up_after_the_retry_time() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.failures = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100

        [answer] = await persister.initialize([InitializeState(KEY, 0, 0)])

        assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        waited_s = asyncio.get_running_loop().time()
        assert RETRY_S - (1 + JITTER) * MAX_PAUSE_S < waited_s < RETRY_S

    play(scenario)


def test_other_errors_are_answers() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        [answer] = await persister.read([ReadState(KEY, 0)])

        assert answer.error is ErrorCode.INVALID_REQUEST and "uninitialized" in answer.message

    assert len(play(scenario).sent) == 1


def test_waiting_questions_are_asked_at_once_when_the_coordinator_has_moved() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.failures = [ErrorCode.NOT_COORDINATOR]
        initializing = asyncio.ensure_future(persister.initialize([InitializeState(KEY, 0, 0)]))
        await asyncio.sleep(0.01)
        cluster.leader = ELSEWHERE
        persister.refresh()
        await asyncio.sleep(0.01)

        assert initializing.done() and [node_id for node_id, _ in cluster.sent] == [THERE, ELSEWHERE]

    play(scenario)


def test_the_topic_is_created_if_there_is_none() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.leader = -1

        [answer] = await persister.initialize([InitializeState(KEY, 0, 0)])

        assert answer == StateResult(KEY) and cluster.created == 1

    play(scenario)


def test_waiting_questions_are_answered_when_it_closes() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.failures = [ErrorCode.NOT_COORDINATOR] * 9
        waiting: list[Awaitable[list[StateResult]]] = [
            asyncio.ensure_future(persister.initialize([InitializeState(KEY, 0, 0)])) for _ in range(3)
        ]
        await asyncio.sleep(0.01)
        persister.close()

        for one in waiting:
            assert [each.error for each in await one] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        after: list[StateAnswer] = [*await persister.delete([DeleteState(KEY)])]
        assert after[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_the_number_of_waiting_questions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_persister, "MAX_QUESTIONS", 3)

    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        keys = [key_of(f"g{number}") for number in range(5)]
        answers = await persister.initialize([InitializeState(key, 0, 0) for key in keys])

        assert [one.error for one in answers].count(ErrorCode.COORDINATOR_NOT_AVAILABLE) == 2
        assert (await persister.initialize([InitializeState(KEY, 0, 0)]))[0].error is ErrorCode.NONE

    play(scenario)


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def scenario(persister: SharePersister, cluster: Cluster) -> None:
        cluster.is_slow = True
        initializing = asyncio.ensure_future(persister.initialize([InitializeState(KEY, 0, 0)]))
        await asyncio.sleep(0.01)
        initializing.cancel()
        cluster.gate.set()
        await asyncio.sleep(0.01)

        assert (await persister.read([ReadState(KEY, 0)]))[0].error is ErrorCode.NONE

    play(scenario)


# ---- keys of FindCoordinator -------------------------------------------------------------------------------

# The keys that Kafka 4.3.1's SharePartitionKey.getInstance accepts.
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"g:{TOPIC}:3", SharePartitionKey("g", bytes(15) + b"\x01", 3)),
        (f"a:b:c:{TOPIC}:3", SharePartitionKey("a:b:c", bytes(15) + b"\x01", 3)),
        (f"a:{TOPIC}:-3", SharePartitionKey("a", bytes(15) + b"\x01", -3)),
        (f"a:{TOPIC}:+3", SharePartitionKey("a", bytes(15) + b"\x01", 3)),
        ("", None),
        ("a:b", None),
        ("::", None),
        ("a:xx:3", None),
        (f":{TOPIC}:3", None),
        (f"  :{TOPIC}:3", None),
        (f"a:{TOPIC}: 3", None),
        (f"a:{TOPIC}:", None),
        (f"a:{TOPIC}:9999999999", None),
        (f"a:{TOPIC}:٣", None),
        (f"a:{TOPIC}AAAAAA:3", None),
    ],
)
def test_a_key_names_a_share_partition(text: str, key: SharePartitionKey | None) -> None:
    assert key_of_text(text) == key


def test_a_key_is_read_as_it_is_written() -> None:
    key = SharePartitionKey("Zürich:1", topic_id(7), 12)

    assert key_of_text(key.coordinator_key) == key
