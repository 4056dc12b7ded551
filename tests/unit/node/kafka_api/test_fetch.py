"""Fetch: limits, waiting, sessions, ids, epochs and errors, over real logs on a disk in memory."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.disk import FileRecords
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl_set import AclSet, AuthorizerSettings
from ottla.metadata_raft.delta import MetadataChanges
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.kafka_api import fetch, fetch_answer
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.net.answers import Delayed
from ottla.node.replica.fetch_session import FEW_PARTITIONS
from ottla.node.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.node.work import turns
from tests.unit.logstore import log_maker
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch, context

BATCH_BYTES = len(batch(1))


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def want(index: int = 0, offset: int = 0, *, max_bytes: int = 1 << 20, **fields: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def request(
    *wanted: FetchPartition, topic: str = "t", topic_id: bytes = bytes(16), **fields: Any
) -> FetchRequest:
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=list(wanted))] if wanted else []
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})


def send(world: ReplicaWorld, message: FetchRequest, version: int = 12) -> FetchResponse:
    """Return the response to a fetch that does not wait."""
    response = fetch.handle(world, context(1, version), message)  # type: ignore[arg-type]
    assert isinstance(response, FetchResponse)
    return response


def only(response: FetchResponse) -> PartitionData:
    assert len(response.responses) == 1
    assert len(response.responses[0].partitions) == 1
    return response.responses[0].partitions[0]


def size_of(data: PartitionData) -> int:
    assert data.records is not None
    return len(data.records)


def large_topic(world: ReplicaWorld, *, is_sendable: bool) -> None:
    world.create_topic()
    world.append(value=bytes(fetch_answer.MIN_SENT_FILE_BYTES))
    world.log_manager.disk.is_sendable = is_sendable


@pytest.mark.parametrize(
    ("version", "is_sendable", "is_read"),
    [
        pytest.param(12, True, False, id="sent from the file"),
        pytest.param(4, True, False, id="sent from the file to an old client"),
        pytest.param(12, False, True, id="no file to send from"),
    ],
)
def test_large_slices_are_sent_and_not_read(
    world: ReplicaWorld, version: int, is_sendable: bool, is_read: bool
) -> None:
    large_topic(world, is_sendable=is_sendable)

    data = only(send(world, request(want()), version))

    assert size_of(data) > fetch_answer.MIN_SENT_FILE_BYTES
    assert isinstance(data.records, bytes) == is_read
    assert is_read or isinstance(data.records, FileRecords)


def test_few_bytes_are_read_into_the_answer(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append()
    world.log_manager.disk.is_sendable = True

    assert isinstance(only(send(world, request(want()))).records, bytes)


def test_an_encrypted_connection_gets_bytes(world: ReplicaWorld) -> None:
    large_topic(world, is_sendable=True)
    plain = context(1, 12)
    encrypted = replace(plain, connection=replace(plain.connection, security_protocol="SSL"))

    response = fetch.handle(world, encrypted, request(want()))  # type: ignore[arg-type]

    assert isinstance(only(response).records, bytes)


def test_records_come_with_their_offsets(world: ReplicaWorld) -> None:
    world.create_topic()
    for _ in range(3):
        world.append()

    data = only(send(world, request(want(offset=1))))

    assert size_of(data) == 2 * BATCH_BYTES
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert data.aborted_transactions is None
    assert data.preferred_read_replica == -1


def test_damage_that_a_reader_meets_is_scrubbed_soon(world: ReplicaWorld) -> None:
    world.create_topic()
    for _ in range(2):
        world.append()
    log = world.replica_manager.partition(("t", 0)).log
    closed = log.active_segment
    log.roll(now_ms=1)
    world.log_manager.disk.files[closed.path].content[BATCH_BYTES + 8] = 0xFF  # a length below 0

    answered = only(send(world, request(want(offset=1))))

    assert answered.error_code == ErrorCode.CORRUPT_MESSAGE
    assert [name for name, _ in world.maintenance.scrub.requested] == [("t", 0)]


def test_the_batch_that_contains_the_offset_is_whole(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append(count=10)

    assert size_of(only(send(world, request(want(offset=7))))) == len(batch(10))


def test_at_the_end_there_is_nothing_and_no_error(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append()

    data = only(send(world, request(want(offset=1))))

    assert (data.error_code, data.records) == (0, b"")


@pytest.mark.parametrize("offset", [-1, 0, 11])
def test_an_offset_out_of_range_shows_no_offsets(world: ReplicaWorld, offset: int) -> None:
    world.create_topic()
    world.append(count=10)
    world.partition().delete_records_before(5)

    data = only(send(world, request(want(offset=offset))))

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.records == b""


def test_the_first_batch_is_sent_however_large(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    for index in (0, 1):
        world.append(index=index)
        world.append(index=index)

    response = send(world, request(want(0, max_bytes=1), want(1, max_bytes=1), max_bytes=1))

    assert [size_of(one) for one in response.responses[0].partitions] == [BATCH_BYTES, 0]


def test_a_partition_returns_at_most_its_limit(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    for _ in range(4):
        world.append(index=0)
        world.append(index=1)

    response = send(world, request(want(0, max_bytes=2 * BATCH_BYTES), want(1), max_bytes=3 * BATCH_BYTES))

    assert [size_of(one) for one in response.responses[0].partitions] == [2 * BATCH_BYTES, BATCH_BYTES]


def test_one_answer_has_a_limit_of_its_own(world: ReplicaWorld) -> None:
    world.create_topic(partitions=3)
    for index in range(3):
        for _ in range(9):
            world.append(index=index, value=bytes(1_000_000))
    wanted = [want(index, max_bytes=50_000_000) for index in range(3)]

    answers = send(world, request(*wanted, max_bytes=50_000_000)).responses[0].partitions

    assert sum(map(size_of, answers)) <= fetch_answer.MAX_ANSWER_BYTES


def test_when_much_is_unsent_a_reader_gets_one_batch(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    for index in (0, 0, 1):
        world.append(index=index)
    world.unsent.used_bytes = world.unsent.limit_bytes // 2 + 1

    answers = send(world, request(want(0), want(1))).responses[0].partitions

    assert [size_of(one) for one in answers] == [BATCH_BYTES, 0]


def test_negative_limits_are_zero(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append()

    data = only(send(world, request(want(max_bytes=-5), max_bytes=-1, min_bytes=-7)))

    assert size_of(data) == BATCH_BYTES


def test_unknown_partitions_and_ids_have_their_own_errors(world: ReplicaWorld) -> None:
    topic = world.create_topic()

    assert only(send(world, request(want(9)))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = request(want(), topic="", topic_id=b"?" * 16)
    assert only(send(world, by_id, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    response = send(world, request(want(), topic="", topic_id=topic.topic_id), 13)
    assert only(response).error_code == 0
    assert response.responses[0].topic_id == topic.topic_id


def test_a_topic_created_again_is_unknown_by_its_old_id(world: ReplicaWorld) -> None:
    old = world.create_topic()
    world.append()
    world.create_topic(topic_id=b"n" * 16)

    data = only(send(world, request(want(), topic="", topic_id=old.topic_id), 13))

    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.NONE), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epochs_are_checked(world: ReplicaWorld, epoch: int, code: ErrorCode) -> None:
    world.create_topic(leader_epoch=5)

    assert only(send(world, request(want(current_leader_epoch=epoch)))).error_code == code


@pytest.mark.parametrize(
    ("learns_epoch", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_fetch_waits_a_moment_for_metadata_with_its_epoch(
    world: ReplicaWorld, learns_epoch: bool, code: ErrorCode
) -> None:
    world.create_topic(leader_epoch=5)
    world.append()
    suspects = world.metadata.suspects = SuspectedBrokers()  # type: ignore[attr-defined]
    message = request(want(current_leader_epoch=6), max_wait_ms=60_000 if learns_epoch else 50)

    async def scene() -> PartitionData:
        delayed = fetch.handle(world, context(1, 12), message)  # type: ignore[arg-type]
        assert isinstance(delayed, Delayed)
        waiting = asyncio.ensure_future(delayed.future)
        await asyncio.sleep(0)
        assert not waiting.done()
        if learns_epoch:
            world.create_topic(leader_epoch=6)
            suspects.handle_metadata(
                world.metadata.image, MetadataChanges((), frozenset(), frozenset(), False)
            )
        await waiting
        response = delayed.answer(None)
        assert isinstance(response, FetchResponse)
        return only(response)

    data = asyncio.run(scene())

    assert data.error_code == code and bool(size_of(data)) == learns_epoch


def test_the_end_of_a_diverging_log_is_returned(world: ReplicaWorld) -> None:
    world.create_topic(leader_epoch=1)
    world.append(count=5)
    world.create_topic(leader_epoch=2)
    world.append(count=5)

    data = only(send(world, request(want(offset=8, last_fetched_epoch=1))))

    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 5)
    assert data.error_code == 0
    assert data.records == b""


@pytest.mark.parametrize("has_authorizer", [True, False])
def test_a_follower_that_is_cut_off_serves_no_client_by_old_acls(
    world: ReplicaWorld, has_authorizer: bool
) -> None:
    world.create_topic(leader=OTHER_ID, replicas=(OTHER_ID, NODE_ID))
    request_context = context(1, 12)
    if has_authorizer:
        authorizer = Authorizer(AuthorizerSettings(allow_everyone_if_no_acl_found=True))
        authorizer.update(AclSet())
        connection = replace(request_context.connection, access=authorizer.access("User:anna", "10.0.0.1"))
        request_context = RequestContext(1, 12, 1, "test", connection)

    def code() -> int:
        response = fetch.handle(world, request_context, request(want()))  # type: ignore[arg-type]
        assert isinstance(response, FetchResponse)
        return only(response).error_code

    before = code()
    world.is_cut_off = True

    assert before == ErrorCode.NONE
    assert code() == (ErrorCode.NOT_LEADER_OR_FOLLOWER if has_authorizer else ErrorCode.NONE)


def test_a_wrong_leader_is_answered_with_the_right_one(world: ReplicaWorld) -> None:
    topic = world.create_topic(leader=OTHER_ID, leader_epoch=4, replicas=(OTHER_ID,))

    response = send(world, request(want(), topic="", topic_id=topic.topic_id), 16)

    data = only(response)
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (OTHER_ID, 4)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(OTHER_ID, "host2")]


@pytest.mark.parametrize("version", [4, 9, 10])
def test_zstd_goes_to_old_clients_too(world: ReplicaWorld, version: int) -> None:
    world.create_topic()
    world.partition().append_as_leader(
        batch(compression=Compression.ZSTD),
        required_acks=1,
        now_ms=world.clock.now_ms(),
        produce_version=9,
    )

    data = only(send(world, request(want()), version))

    assert data.error_code == 0
    assert size_of(data) > 0


def test_only_a_proven_node_fetches_as_a_replica(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append()
    before = request(want(), replica_id=OTHER_ID)
    since = request(want(), replica_state=ReplicaState(replica_id=OTHER_ID))

    for message, version in ((before, 12), (since, 15)):
        response = send(world, message, version)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not response.responses


def test_read_committed_names_aborted_transactions_even_if_none(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append()

    data = only(send(world, request(want(), isolation_level=1)))

    assert data.aborted_transactions == []
    assert size_of(data) == BATCH_BYTES


def test_read_committed_ends_where_a_transaction_is_open(world: ReplicaWorld) -> None:
    world.create_topic()
    log = world.partition().log
    log_maker.send(log, 7, 0, is_transactional=True)
    log_maker.end_transaction(log, 7, ControlType.ABORT)
    stable_bytes = log.size_bytes
    log_maker.send(log, 8, 0, is_transactional=True)
    log.update_high_watermark(3)

    committed = only(send(world, request(want(), isolation_level=1)))
    plain = only(send(world, request(want(), isolation_level=0)))

    assert (committed.high_watermark, committed.last_stable_offset) == (3, 2)
    assert [(row.producer_id, row.first_offset) for row in committed.aborted_transactions or ()] == [(7, 0)]
    assert size_of(committed) == stable_bytes
    assert (plain.last_stable_offset, plain.aborted_transactions) == (2, None)
    assert size_of(plain) == log.size_bytes


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_first_look_into_an_old_segment_waits_for_its_indexes_in_a_thread(
    world: ReplicaWorld,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    isolation_level: int,
) -> None:
    world.create_topic()
    world.append(count=3)
    log = world.partition().log
    log.roll(now_ms=0)
    world.append(count=2)
    log.segments[0].is_warm = False  # as after a start
    ran: list[Callable[[], Any]] = []

    async def in_thread(work: Callable[[], Any]) -> Any:
        ran.append(work)
        return work()

    monkeypatch.setattr(world, "in_thread", in_thread)
    message = request(want(offset=1), isolation_level=isolation_level)

    waited = loop.run_until_complete(fetch.handle(world, context(1, 12), message))  # type: ignore[arg-type]

    assert len(ran) == 1
    assert size_of(only(waited)) == log.segments[0].size_bytes
    assert only(send(world, message)).records == only(waited).records
    assert size_of(only(send(world, request(want(offset=3))))) == log.segments[1].size_bytes


def test_cold_bytes_are_read_in_a_thread(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic()
    world.append()
    world.log_manager.disk.is_cached = False

    answer = fetch.handle(world, context(1, 12), request(want()))  # type: ignore[arg-type]

    assert asyncio.iscoroutine(answer)
    assert size_of(only(loop.run_until_complete(answer))) == BATCH_BYTES


def test_a_disk_that_fails_is_a_storage_error(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    world.append(index=0)
    world.log_manager.disk.fail_reads = True

    answers = send(world, request(want(0), want(1))).responses[0].partitions

    assert [one.error_code for one in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert answers[0].records == b""


# ---- waiting -----------------------------------------------------------------------------------------


def wait(
    world: ReplicaWorld,
    loop: asyncio.AbstractEventLoop,
    message: FetchRequest,
    *steps: Callable[[], object],
    version: int = 12,
) -> list[PartitionData]:
    """Send a fetch that waits, take the steps (only the last may complete it), return its response."""

    async def scenario() -> list[PartitionData]:
        delayed = fetch.handle(world, context(1, version), message)  # type: ignore[arg-type]
        assert isinstance(delayed, Delayed)
        future = delayed.future
        assert isinstance(future, asyncio.Future)
        for step in steps:
            assert not future.done()
            step()
        assert future.done() or not steps, "the fetch was not woken, and would wait until it times out"
        response = delayed.answer(await future)
        assert isinstance(response, FetchResponse)
        return [one for topic in response.responses for one in topic.partitions]

    return loop.run_until_complete(scenario())


def test_an_append_wakes_a_fetch(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic()

    (data,) = wait(world, loop, request(want(), max_wait_ms=60_000), world.append)

    assert size_of(data) == BATCH_BYTES


def test_an_append_between_the_turns_of_a_large_fetch_counts(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    world.create_topic(partitions=2 * turns.STEPS_PER_TURN)
    message = request(*map(want, range(2 * turns.STEPS_PER_TURN)), max_wait_ms=60_000)
    request_context = context(1, 12)
    request_context.is_large = True

    async def scenario() -> FetchResponse:
        located = asyncio.ensure_future(fetch.handle(world, request_context, message))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert not located.done()
        world.append(index=0)
        response = await settled(await located)
        assert isinstance(response, FetchResponse)
        return response

    response = loop.run_until_complete(asyncio.wait_for(scenario(), 30))

    assert size_of(response.responses[0].partitions[0]) == BATCH_BYTES


def test_min_bytes_counts_all_partitions(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic(partitions=2)
    message = request(want(0), want(1), max_wait_ms=60_000, min_bytes=3 * BATCH_BYTES)

    answers = wait(
        world,
        loop,
        message,
        lambda: world.append(index=0),
        lambda: world.append(index=1),
        lambda: world.append(index=0),
    )

    assert [size_of(one) for one in answers] == [2 * BATCH_BYTES, BATCH_BYTES]


def test_withheld_bytes_of_a_batch_count_for_min_bytes(world: ReplicaWorld) -> None:
    """Otherwise a fetch with min_bytes equal to the partition's limit would wait for more than it can get."""
    world.create_topic()
    for _ in range(4):
        world.append(value=bytes(20_000))
    message = request(want(max_bytes=50_000), max_wait_ms=60_000, min_bytes=50_000)

    assert 40_000 < size_of(only(send(world, message))) < 50_000


def test_a_fetch_waiting_for_committed_records_is_not_woken_by_uncommitted_ones(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    world.create_topic()
    log = world.partition().log
    log_maker.send(log, 7, 0, is_transactional=True)
    log.update_high_watermark(1)
    message = request(want(offset=1), max_wait_ms=60_000, isolation_level=1)

    (data,) = wait(
        world,
        loop,
        message,
        world.append,
        world.append,
        lambda: world.partition().append_marker(
            EndTransactionMarker(ControlType.COMMIT, 0),
            producer_id=7,
            producer_epoch=0,
            transaction_version=0,
            now_ms=log_maker.NOW_MS,
        ),
    )

    assert (data.last_stable_offset, data.error_code) == (4, 0)
    assert size_of(data) > 2 * BATCH_BYTES


def test_a_wait_ends_after_max_wait_ms(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic()

    (data,) = wait(world, loop, request(want(), max_wait_ms=1))

    assert (data.error_code, data.records) == (0, b"")


def test_a_deleted_topic_wakes_a_fetch(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    world.create_topic()

    (data,) = wait(world, loop, request(want(), max_wait_ms=60_000), lambda: world.delete_topic("t"))

    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_does_not_wait(world: ReplicaWorld) -> None:
    assert only(send(world, request(want(), max_wait_ms=60_000))).error_code != 0


def test_a_fetch_of_nothing_does_not_wait(world: ReplicaWorld) -> None:
    assert send(world, request(max_wait_ms=60_000)).responses == []


def test_a_client_that_disconnects_leaves_nothing_behind(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    world.create_topic()

    async def scenario() -> None:
        delayed = fetch.handle(world, context(1, 12), request(want(), max_wait_ms=60_000))  # type: ignore[arg-type]
        assert isinstance(delayed, Delayed)
        assert isinstance(delayed.future, asyncio.Future)
        delayed.future.cancel()
        await asyncio.sleep(0)

    loop.run_until_complete(scenario())

    assert world.partition().delayed_fetches == {}


# ---- sessions ----------------------------------------------------------------------------------------


def test_a_session_returns_only_changes(world: ReplicaWorld) -> None:
    world.create_topic(partitions=3)
    first = send(world, request(want(0), want(1), want(2), session_epoch=0))
    session_id = first.session_id
    assert session_id > 0
    assert len(first.responses[0].partitions) == 3

    second = send(world, request(session_id=session_id, session_epoch=1))
    assert second.responses == []
    assert second.session_id == session_id

    world.append(index=1)
    third = send(world, request(session_id=session_id, session_epoch=2))
    assert [one.partition_index for one in third.responses[0].partitions] == [1]
    assert size_of(third.responses[0].partitions[0]) == BATCH_BYTES

    fourth = send(world, request(want(1, offset=1), session_id=session_id, session_epoch=3))
    assert fourth.responses == [], "the new offset is at the end and nothing else has changed"


def test_partitions_that_gave_records_are_read_last(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    for index in (0, 1):
        world.append(index=index)
    session_id = send(world, request(want(0), want(1), session_epoch=0)).session_id

    def turn(epoch: int) -> list[int]:
        message = request(session_id=session_id, session_epoch=epoch, max_bytes=1)
        answers = send(world, message).responses[0].partitions
        return [one.partition_index for one in answers if size_of(one)]

    assert [turn(1), turn(2), turn(3)] == [[0], [1], [0]]


def test_a_forgotten_partition_is_not_read(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)
    session_id = send(world, request(want(0), want(1), session_epoch=0)).session_id
    world.append(index=0)
    world.append(index=1)
    forgotten = [ForgottenTopic(topic="t", partitions=[0])]

    response = send(world, request(session_id=session_id, session_epoch=1, forgotten_topics_data=forgotten))

    assert [one.partition_index for one in response.responses[0].partitions] == [1]


def test_a_session_whose_last_partition_is_forgotten_ends(world: ReplicaWorld) -> None:
    world.create_topic()
    session_id = send(world, request(want(0), session_epoch=0)).session_id
    forgotten = [ForgottenTopic(topic="t", partitions=[0])]

    response = send(world, request(session_id=session_id, session_epoch=1, forgotten_topics_data=forgotten))

    assert (response.session_id, response.responses) == (0, [])
    assert len(world.replica_manager.sessions) == 0


@pytest.mark.parametrize(
    ("offset", "epoch", "code"),
    [
        (1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_an_unknown_session_or_epoch_is_rejected(
    world: ReplicaWorld, offset: int, epoch: int, code: ErrorCode
) -> None:
    world.create_topic()
    session_id = send(world, request(want(), session_epoch=0)).session_id

    response = send(world, request(session_id=session_id + offset, session_epoch=epoch))

    assert (response.error_code, response.session_id) == (code, 0)
    assert response.responses == ()


def test_no_session_is_made_for_a_fetch_that_wants_none(world: ReplicaWorld) -> None:
    world.create_topic()

    assert send(world, request(want(), session_epoch=-1)).session_id == 0
    assert len(world.replica_manager.sessions) == 0


def test_a_full_fetch_ends_the_session_it_names(world: ReplicaWorld) -> None:
    world.create_topic()
    session_id = send(world, request(want(), session_epoch=0)).session_id

    send(world, request(want(), session_id=session_id, session_epoch=-1))

    assert len(world.replica_manager.sessions) == 0


def test_a_session_returns_the_error_for_the_name_of_a_topic_that_it_has_read(world: ReplicaWorld) -> None:
    topic = world.create_topic()
    by_id = request(want(), topic="", topic_id=topic.topic_id, session_epoch=0)
    session_id = send(world, by_id, 13).session_id

    def code(epoch: int) -> int:
        return only(send(world, request(session_id=session_id, session_epoch=epoch), 13)).error_code

    world.delete_topic("t")
    assert [code(1), code(2)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    world.create_topic(topic_id=b"a".ljust(16))
    assert [code(3), code(4)] == [ErrorCode.INCONSISTENT_TOPIC_ID] * 2


@pytest.mark.parametrize("refused", [want(0, offset=99), want(5)], ids=["out of range", "no such partition"])
def test_a_topic_that_was_found_and_not_read_is_known_too(
    world: ReplicaWorld, refused: FetchPartition
) -> None:
    topic = world.create_topic()
    by_id = request(refused, topic="", topic_id=topic.topic_id, session_epoch=0)
    session_id = send(world, by_id, 13).session_id

    world.delete_topic("t")

    data = only(send(world, request(session_id=session_id, session_epoch=1), 13))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("epoch", [0, -1], ids=["a new session", "no session"])
def test_a_waiting_fetch_returns_the_error_for_the_name_of_its_topic(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop, epoch: int
) -> None:
    topic = world.create_topic()
    by_id = request(want(), topic="", topic_id=topic.topic_id, session_epoch=epoch, max_wait_ms=60_000)

    (data,) = wait(world, loop, by_id, lambda: world.delete_topic("t"), version=13)

    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_that_was_not_read_has_an_unknown_id(world: ReplicaWorld) -> None:
    topic = world.create_topic()
    world.delete_topic("t")
    by_id = request(want(), topic="", topic_id=topic.topic_id, session_epoch=0)

    first = send(world, by_id, 13)
    world.create_topic(topic_id=b"a".ljust(16))
    second = send(world, request(session_id=first.session_id, session_epoch=1), 13)

    assert only(first).error_code == only(second).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_session_of_partitions_that_do_not_exist_ends_with_its_answer(world: ReplicaWorld) -> None:
    world.create_topic()
    many = [want(index) for index in range(FEW_PARTITIONS + 2)]

    first = send(world, request(*many, session_epoch=0))

    assert first.session_id == 0 and len(first.responses[0].partitions) == len(many)
    assert len(world.replica_manager.sessions) == world.replica_manager.sessions.used_bytes == 0


def test_a_session_to_which_unknown_partitions_are_added_ends_too(world: ReplicaWorld) -> None:
    world.create_topic()
    session_id = send(world, request(want(), session_epoch=0)).session_id
    many = [want(index) for index in range(1, FEW_PARTITIONS + 2)]

    added = send(world, request(*many, session_id=session_id, session_epoch=1))
    after = send(world, request(session_id=session_id, session_epoch=2))

    assert added.session_id == 0
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_few_unknown_partitions_stay_in_a_session_and_are_returned_once_they_exist(
    world: ReplicaWorld,
) -> None:
    session_id = send(world, request(want(), session_epoch=0)).session_id
    world.create_topic()

    data = only(send(world, request(session_id=session_id, session_epoch=1)))

    assert data.error_code == 0
