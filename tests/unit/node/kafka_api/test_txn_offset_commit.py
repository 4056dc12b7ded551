"""TxnOffsetCommit: verification by the transaction coordinator, fencing, and the errors for clients."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.groupcoord.group_records import OFFSETS_TOPIC as OFFSETS
from ottla.groupcoord.offsets.offset_commands import Producer
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import commit_order
from ottla.node.coordinators.commit_order import CommitOrder
from ottla.node.kafka_api import txn_offset_commit
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import CloseConnection
from ottla.node.settings.config import parse_config
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.node.work.turns import STEPS_PER_TURN
from tests.unit.node.coordinators.marker_world import MarkerNode, marker, play
from tests.unit.node.fakes import services_of
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import CONNECTION

G0 = TopicPartition(OFFSETS, 0)
TOPIC_ID = b"t".ljust(16, b".")
ALL_VERSIONS = range(7)
MANY = 1_000  # partitions; a request with more shares the loop with others


class Gate:
    """The coordinator of transactions, and the requests that it received."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int, int, Sequence[TopicPartition], bool]] = []
        self.code = ErrorCode.NONE
        self.meanwhile: Callable[[], None] = lambda: None
        self.pauses: list[int] = []  # turns of the loop that the next answers take

    async def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.requests.append((transactional_id, producer_id, producer_epoch, list(partitions), adds))
        for _ in range(self.pauses.pop(0) if self.pauses else 1):
            await asyncio.sleep(0)
        self.meanwhile()
        return dict.fromkeys(partitions, self.code)


class World:
    """The leader of a group's partition, and the coordinator of transactions."""

    def __init__(self, settings: Mapping[str, str] | None = None, **offsets_topic: Any) -> None:
        self.node = MarkerNode()
        self.node.config = parse_config(settings or {})
        self.node.create_topic("t", partitions=2, topic_id=TOPIC_ID)
        self.node.create_topic(OFFSETS, **offsets_topic)
        self.gate = Gate()
        node = self.node
        self.services = services_of(
            node.config, metadata=node.metadata, groups=node.groups, txn_gate=self.gate
        )

    async def commit(
        self,
        version: int = 5,
        *,
        offset: int = 42,
        partitions: Sequence[int] = (0,),
        name: str = "t",
        topic_id: bytes = TOPIC_ID,
        producer_epoch: int = 0,
        connection_number: int = 1,
        **fields: Any,
    ) -> list[ErrorCode]:
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=fields.pop("group_id", "g"),
            producer_id=7,
            producer_epoch=producer_epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                        for index in partitions
                    ],
                )
            ],
            **fields,
        )
        connection = replace(CONNECTION, number=connection_number)
        is_large = len(partitions) > MANY
        context = RequestContext(ApiKey.TXN_OFFSET_COMMIT, version, 1, "test", connection, is_large)
        answer = await settled(txn_offset_commit.handle(self.services, context, request))
        return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]

    def play(self, *commits: Callable[[], Any]) -> list[list[ErrorCode]]:
        async def scenario() -> list[list[ErrorCode]]:
            return [await commit() for commit in commits]

        return play(self.node, scenario)

    def batches(self) -> list[tuple[int, int, int, int, bool]]:
        """Return producer id, epoch, base sequence, record count and is_transactional of each batch."""
        log = self.node.partition(OFFSETS).log
        found = log.read(0, 1 << 30, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
        return [
            (one.producer_id, one.producer_epoch, one.base_sequence, one.records_count, one.is_transactional)
            for _, one in iterate_headers(found.slice.read())
            if not one.is_control
        ]


def test_a_commit_of_very_many_offsets_takes_turns_with_others() -> None:
    world = World()
    turns = []

    async def scenario() -> list[ErrorCode]:
        answer = asyncio.ensure_future(world.commit(partitions=[0, 9] * 2 * MANY))
        while not answer.done():
            turns.append(1)
            await asyncio.sleep(0)
        return answer.result()

    codes = play(world.node, scenario)

    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2 * MANY
    assert len(turns) >= 4 * MANY // STEPS_PER_TURN


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_the_first_commit_of_a_transaction_asks_and_the_next_ones_do_not(version: int) -> None:
    world = World()

    codes = world.play(lambda: world.commit(version, partitions=(0, 1)), lambda: world.commit(version))

    assert codes == [[ErrorCode.NONE] * 2, [ErrorCode.NONE]]
    assert world.gate.requests == [("x", 7, 0, [G0], version >= 5)]
    # The sequences are those of Apache Kafka's coordinator: each batch begins at 0.
    assert world.batches() == [(7, 0, 0, 2, True), (7, 0, 0, 1, True)]


@pytest.mark.parametrize(("version", "is_verified"), [(version, version >= 5) for version in ALL_VERSIONS])
def test_without_verification_only_implicitly_added_commits_ask_the_coordinator(
    version: int, is_verified: bool
) -> None:
    world = World({"transaction.partition.verification.enable": "false"})

    assert world.play(lambda: world.commit(version)) == [[ErrorCode.NONE]]
    assert bool(world.gate.requests) is is_verified


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_that_the_coordinator_rejects_is_rejected(
    code: ErrorCode, version: int, expected: ErrorCode
) -> None:
    world = World()
    world.gate.code = code

    assert world.play(lambda: world.commit(version, partitions=(0, 5, 1))) == [
        [expected, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, expected]
    ]
    assert world.batches() == []


def test_a_transaction_that_ends_during_the_verification_gets_no_offsets() -> None:
    """KAFKA-12671: otherwise they would be pending for ever."""
    world = World()

    def end() -> None:
        world.node.ask(WriteTxnMarkersRequest(markers=[marker(7, [(OFFSETS, 0)], is_commit=False)]))

    world.gate.meanwhile = end

    assert world.play(lambda: world.commit(3)) == [[ErrorCode.INVALID_TXN_STATE]]
    assert world.batches() == []


def test_a_group_that_moves_during_the_verification_answers_not_coordinator() -> None:
    world = World()

    def move() -> None:
        world.node.create_topic(OFFSETS, leader=2, leader_epoch=1, replicas=(1, 2), isr=(2,))
        world.node.groups.refresh()

    world.gate.meanwhile = move

    assert world.play(lambda: world.commit()) == [[ErrorCode.NOT_COORDINATOR]]


def test_an_older_instance_is_fenced_before_the_coordinator_is_asked() -> None:
    world = World()

    codes = world.play(
        lambda: world.commit(producer_epoch=4), lambda: world.commit(producer_epoch=3), world.commit
    )

    assert codes == [[ErrorCode.NONE], [ErrorCode.INVALID_PRODUCER_EPOCH], [ErrorCode.INVALID_PRODUCER_EPOCH]]
    assert len(world.gate.requests) == 1


def test_a_new_transaction_of_a_newer_epoch_asks_again() -> None:
    """The open transaction of a fenced instance does not count for its successor's."""
    world = World()

    world.play(lambda: world.commit(producer_epoch=3), lambda: world.commit(producer_epoch=4))

    assert [epoch for _, _, epoch, _, _ in world.gate.requests] == [3, 4]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_unknown_partitions_get_an_error_and_no_coordinator_is_asked(version: int) -> None:
    world = World()

    unknown_partition, unknown_topic = world.play(
        lambda: world.commit(version, partitions=(2, -1)),
        lambda: world.commit(version, name="u", topic_id=b"u" * 16),
    )

    assert unknown_partition == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version == 6 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown_topic == [unknown] and not world.gate.requests


@pytest.mark.parametrize(
    ("version", "error"),
    [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_an_unknown_group_is_rejected_with_the_error_of_its_version(
    version: int, error: ErrorCode
) -> None:
    world = World()

    assert world.play(
        lambda: world.commit(version, generation_id_or_member_epoch=3, member_id="m"),
        lambda: world.commit(version, group_id=""),
    ) == [[error], [ErrorCode.INVALID_GROUP_ID]]


def test_a_request_without_topics_gets_an_empty_response() -> None:
    world = World()

    assert world.play(lambda: world.commit(partitions=())) == [[]]


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_while_the_group_loads_a_commit_is_rejected_with_the_error_of_its_version(
    version: int, error: ErrorCode
) -> None:
    world = World()
    world.node.append(OFFSETS)

    assert world.play(lambda: world.commit(version)) == [[error]]


def test_with_too_few_replicas_the_coordinator_is_not_available() -> None:
    world = World(replicas=(1, 2), isr=(1,), config=LogConfig(min_insync_replicas=2))

    assert world.play(world.commit) == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]


# ---- late copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_copy_over_an_older_connection_does_not_take_the_group_back(version: int) -> None:
    """A copy from the same transaction, or from the one before if that has the same epoch."""
    world = World()

    async def scenario() -> list[int]:
        await world.commit(version, offset=10, connection_number=5)
        await world.commit(version, offset=10, connection_number=6)  # its response was lost
        await world.commit(version, offset=20, connection_number=6)
        batches = len(world.batches())
        with pytest.raises(CloseConnection):
            await world.commit(version, offset=10, connection_number=5)
        assert len(world.batches()) == batches
        return [code for one in (6, 7) for code in await world.commit(version, connection_number=one)]

    assert play(world.node, scenario) == [ErrorCode.NONE] * 2


def test_a_copy_that_was_verified_meanwhile_is_late_too() -> None:
    world = World()

    async def scenario() -> None:
        first = asyncio.ensure_future(world.commit(3, offset=10, connection_number=5))
        await asyncio.sleep(0)
        await world.commit(3, offset=10, connection_number=6)
        with pytest.raises(CloseConnection):
            await first

    world.gate.pauses = [10, 0]
    play(world.node, scenario)
    assert len(world.batches()) == 1


def test_the_order_is_that_of_one_instance_of_a_producer_in_one_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = CommitOrder()
    assert not order.is_late("g", Producer(7, 3), 9)

    assert order.is_late("g", Producer(7, 3), 8)
    assert not order.is_late("h", Producer(7, 3), 8)
    assert not order.is_late("g", Producer(8, 3), 8)
    assert not order.is_late("g", Producer(7, 4), 8)  # a new epoch over another connection
    assert not order.is_late("g", Producer(7, 3), 20)  # from the fenced one, which the log rejects
    assert order.is_late("g", Producer(7, 4), 7)

    monkeypatch.setattr(commit_order, "MAX_REMEMBERED", 3)
    for producer_id in range(20, 23):
        order.is_late("g", Producer(producer_id, 0), 9)
    assert not order.is_late("g", Producer(7, 4), 7)
