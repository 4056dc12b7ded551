"""ShareFetch and ShareAcknowledge over real logs in memory: sessions, waiting, locks, errors, leaders."""

import asyncio
from typing import Any

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.disk import FileRecords
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api import share_fetch
from ottla.node.share import share_fetch as share_fetch_parts
from ottla.node.share.delayed_index import DelayedIndex
from ottla.node.share.led_partition import LED_BYTES
from ottla.node.share.share_fetch import MIN_SENT_FILE_BYTES, ShareFetchParams
from ottla.node.share.share_partition_manager import MAX_ACKNOWLEDGED, MAX_BEGUN
from ottla.node.share.share_sessions import SessionKey, TopicIdPartition
from ottla.node.wire.messages.share_fetch import PartitionData, ShareFetchResponse
from ottla.node.work import turns
from tests.unit.node.kafka_api.share_world import GROUP, TOPIC_ID, ShareWorld, acquired, play
from tests.unit.node.replica.replica_world import OTHER_ID, batch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
AVAILABLE, ACQUIRED = 0, 1
DELAYING = LogConfig(ottla_delivery_delay_enable=True)
LONG_MS = 10_000  # a wait that ends by its event, not by its time


def only(response: ShareFetchResponse) -> PartitionData:
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.responses
    (data,) = topic.partitions
    return data


def offsets_in(data: PartitionData) -> list[int]:
    """Return the base offsets of the batches that were sent."""
    content = b"" if data.records is None else bytes(data.records)  # type: ignore[arg-type]
    return [header.base_offset for _, header in iterate_headers(content)]


# ---- waiting for records -----------------------------------------------------------------------------------


@pytest.mark.parametrize("turns_before", range(4))
def test_records_that_come_while_a_fetch_begins_to_wait_wake_it(turns_before: int) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        waits = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=60_000))
        for _ in range(turns_before):
            await asyncio.sleep(0)

        world.append(count=10)

        assert acquired(only(await waits)) == [(0, 9, 1)]

    play(scenario)


@pytest.mark.parametrize("turns_before", range(4))
def test_the_first_fetch_returns_available_records_as_soon_as_the_state_is_read(turns_before: int) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=10)
        world.persister.may_proceed.clear()
        waits = asyncio.ensure_future(world.fetch("m1", 0, 0, max_wait_ms=60_000))
        for _ in range(turns_before):
            await asyncio.sleep(0)

        world.persister.may_proceed.set()

        assert acquired(only(await waits)) == [(0, 9, 1)]

    play(scenario)


def test_a_fetch_that_is_given_up_before_it_waits_leaves_nothing_behind() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        left = world.shares.fetch(
            ShareFetchParams(
                key=SessionKey(GROUP, "m1"),
                session=world.shares.sessions.find(SessionKey(GROUP, "m1")),
                connection=world.context().connection,
                max_bytes=1 << 20,
                min_bytes=1,
                max_wait_ms=60_000,
                max_records=500,
                batch_size=500,
                is_strict=False,
            ),
            {TopicIdPartition(TOPIC_ID, 0): "t"},
            {},
        )
        assert isinstance(left, asyncio.Future)

        left.cancel()
        await world.run_pending()

        assert world.shares.waiting_count == 0
        assert not world.shares.share_partitions[world.key()].waiting
        world.append(count=10)
        assert acquired(only(await world.fetch("m2", 0, 0))) == [(0, 9, 1)]

    play(scenario)


def test_the_first_answer_of_a_session_has_also_partitions_without_records() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        world.append(count=10, index=1)

        first = await world.fetch("m2", 0, 0, 1)
        second = await world.fetch("m2", 1)

        given = {data.partition_index: acquired(data) for data in first.responses[0].partitions}
        assert given == {0: [], 1: [(0, 9, 1)]}
        assert not second.responses

    play(scenario)


# ---- fetched records ---------------------------------------------------------------------------------------


def test_records_are_acquired_and_sent_in_whole_batches() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        for _ in range(3):
            world.append(count=10)

        data = only(await world.fetch("m1", 2, max_records=15))

        assert acquired(data) == [(0, 19, 1)]
        assert offsets_in(data) == [0, 10]

    play(scenario)


def test_the_strict_mode_acquires_at_most_the_requested_records() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=10)

        data = only(await world.fetch("m1", 2, max_records=4, share_acquire_mode=1))

        assert acquired(data) == [(0, 3, 1)]
        assert offsets_in(data) == [0]

    play(scenario)


def test_no_record_is_held_by_two_members() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=5)
        world.append(count=5)

        first = only(await world.fetch("m1", 2, max_records=5))
        second = only(await world.fetch("m2", 2))
        third = await world.fetch("m1", 3)

        assert (acquired(first), acquired(second)) == ([(0, 4, 1)], [(5, 9, 1)])
        assert offsets_in(second) == [5]
        assert third.responses == []

    play(scenario)


def test_compressed_batches_stay_as_they_are() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        sent = batch(100, value=bytes(100), compression=Compression.GZIP)
        world.partition().append_as_leader(
            sent, required_acks=1, now_ms=world.clock.now_ms(), produce_version=9
        )

        data = only(await world.fetch("m1", 2, max_records=1))

        assert acquired(data) == [(0, 99, 1)]
        assert data.records is not None and len(data.records) == len(sent)

    play(scenario)


def test_a_limit_of_bytes_is_shared_by_the_partitions_and_one_batch_is_always_sent() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        for index in (0, 1):
            world.append(count=2, index=index)
            world.append(count=2, index=index)

        answer = await world.fetch("m1", 2, max_bytes=1)

        assert [acquired(one) for one in answer.responses[0].partitions] == [[(0, 1, 1)]]

    play(scenario)


def test_the_partitions_take_turns_at_being_the_first() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=3)
        await world.ready("m1", 0, 1, 2)
        for index in range(3):
            world.append(count=1, index=index)

        first_partitions = [
            (await world.fetch("m1", epoch, max_records=1)).responses[0].partitions[0].partition_index
            for epoch in (2, 3, 4)
        ]

        assert sorted(first_partitions) == [0, 1, 2]

    play(scenario)


# ---- transactions ------------------------------------------------------------------------------------------


def transact(world: ShareWorld, producer_id: int, outcome: ControlType | None) -> None:
    now_ms = world.clock.now_ms()
    guard = world.partition().begin_verification(producer_id, 0, 0, bumps_epoch=False, now_ms=now_ms)
    world.partition().append_as_leader(
        batch(5, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True),
        required_acks=1,
        now_ms=world.clock.now_ms(),
        produce_version=9,
        guard=guard,
    )
    if outcome is not None:
        world.partition().append_marker(
            EndTransactionMarker(outcome, 0),
            producer_id=producer_id,
            producer_epoch=0,
            transaction_version=1,
            now_ms=world.clock.now_ms(),
        )


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        ("read_uncommitted", [(0, 4, 1), (5, 5, 1), (6, 10, 1), (11, 11, 1), (12, 16, 1)]),
        ("read_committed", [(5, 5, 1), (6, 10, 1), (11, 11, 1)]),
    ],
)
def test_committed_readers_get_no_aborted_and_no_open_transactions(
    isolation: str, expected: list[tuple[int, int, int]]
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["share.isolation.level"] = isolation
        world.create_topic()
        await world.ready()
        transact(world, 1, ControlType.ABORT)
        transact(world, 2, ControlType.COMMIT)
        transact(world, 3, None)

        data = only(await world.fetch("m1", 2, batch_size=1))

        assert acquired(data) == expected

    play(scenario)


def test_a_fetch_of_a_committed_reader_is_woken_by_the_end_of_the_transaction() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["share.isolation.level"] = "read_committed"
        world.create_topic()
        await world.ready()
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()
        transact(world, 1, None)
        await world.run_pending()
        assert not waiting.done()

        world.partition().append_marker(
            EndTransactionMarker(ControlType.COMMIT, 0),
            producer_id=1,
            producer_epoch=0,
            transaction_version=1,
            now_ms=world.clock.now_ms(),
        )

        assert acquired(only(await waiting)) == [(0, 5, 1)]

    play(scenario)


# ---- waiting -----------------------------------------------------------------------------------------------


def test_one_waiting_fetch_gets_new_records_and_the_others_go_on_waiting() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        members = [f"m{number}" for number in range(5)]
        for member in members:
            await world.ready(member)
        waiting = [asyncio.ensure_future(world.fetch(one, 2, max_wait_ms=LONG_MS)) for one in members]
        await world.run_pending()
        assert world.shares.waiting_count == 5

        world.append(count=3)
        await world.run_pending()

        done = [one for one in waiting if one.done()]
        assert [acquired(only(await one)) for one in done] == [[(0, 2, 1)]]
        assert world.shares.waiting_count == 4
        world.append(count=2)
        await world.run_pending()
        assert sum(one.done() for one in waiting) == 2
        world.end()
        assert [(await one).responses for one in waiting if one not in done][-1] == []

    play(scenario)


def test_a_fetch_waits_for_the_bytes_that_it_wants() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        size = len(batch(1))
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS, min_bytes=2 * size))
        await world.run_pending()
        world.append()
        await world.run_pending()
        assert not waiting.done()

        world.append()

        assert acquired(only(await waiting)) == [(0, 1, 1)]

    play(scenario)


class FakeAccess:
    """The rights of a client, which a test takes away."""

    is_open = False

    def __init__(self) -> None:
        self.denied: set[ResourceType] = set()

    def of_request(self, api: str) -> "FakeAccess":
        return self

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        return resource_type not in self.denied


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_a_right_is_checked_again_after_a_fetch_has_waited(resource: ResourceType, error: ErrorCode) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        rights = FakeAccess()
        waiting = asyncio.ensure_future(
            world.fetch("m1", 2, context=world.context(access=rights), max_wait_ms=50)
        )
        await world.run_pending()
        rights.denied.add(resource)

        world.append()

        data = only(await waiting)
        assert data.error_code == error and not acquired(data)
        rights.denied.clear()
        assert acquired(only(await world.fetch("m1", 3))) == [(0, 0, 1)]

    play(scenario)


def test_a_fetch_returns_the_available_records_when_its_wait_ends() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append()

        data = only(await world.fetch("m1", 2, max_wait_ms=20, min_bytes=1 << 19))

        assert acquired(data) == [(0, 0, 1)]
        assert world.shares.counters.expired_fetches == 1

    play(scenario)


def test_released_records_wake_waiting_fetches() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=4)
        await world.fetch("m1", 2)
        waiting = asyncio.ensure_future(world.fetch("m2", 2, max_wait_ms=LONG_MS))
        await world.run_pending()

        await world.acknowledge("m1", 3, [(1, 2, [RELEASE])])

        assert acquired(only(await waiting)) == [(1, 2, 2)]

    play(scenario)


def test_expired_locks_wake_waiting_fetches() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["share.record.lock.duration.ms"] = "15000"
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=4)
        await world.fetch("m1", 2)
        waiting = asyncio.ensure_future(world.fetch("m2", 2, max_wait_ms=LONG_MS))
        await world.run_pending()

        world.clock.advance(15_000)
        world.shares.expire(world.key())

        assert acquired(only(await waiting)) == [(0, 3, 2)]
        assert world.shares.counters.lock_timeouts == 4

    play(scenario)


def test_the_timer_of_a_back_off_wakes_waiting_fetches() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["ottla.share.retry.backoff.ms"] = "20"
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=4)
        await world.fetch("m1", 2)
        waiting = asyncio.ensure_future(world.fetch("m2", 2, max_wait_ms=LONG_MS))
        await world.run_pending()
        await world.acknowledge("m1", 3, [(1, 2, [RELEASE]), (3, 3, [RELEASE])])
        await world.run_pending()
        assert not waiting.done()

        world.clock.advance(20)  # without another request: the timer of the share-partition fires

        assert acquired(only(await waiting)) == [(1, 3, 2)]

    play(scenario)


def test_records_in_their_back_off_are_written_as_available_for_a_new_leader() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["ottla.share.retry.backoff.ms"] = "1000"
        world.create_topic()
        await world.ready("m1")
        world.append(count=4)
        await world.fetch("m1", 2)
        await world.acknowledge("m1", 3, [(1, 2, [RELEASE])])
        assert (await world.fetch("m1", 4)).responses == []
        # They were written as available, without a time.
        [write] = world.persister.written
        assert [(one.first_offset, one.last_offset, one.delivery_state) for one in write.batches] == [
            (1, 2, 0)
        ]

    play(scenario)


# ---- the state ---------------------------------------------------------------------------------------------


def test_the_first_fetch_waits_for_the_state_and_others_go_on() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=3)
        world.persister.may_proceed.clear()
        waiting = asyncio.ensure_future(world.fetch("m1", 0, 0, max_wait_ms=LONG_MS))
        await world.run_pending()
        assert not waiting.done()

        world.persister.may_proceed.set()

        assert acquired(only(await waiting)) == [(0, 2, 1)]
        assert [(one.key, one.leader_epoch) for one in world.persister.reads] == [(world.key(), 0)]

    play(scenario)


def test_a_group_goes_on_where_its_state_says() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=3)
        world.append(count=3)
        world.persister.start_offset = 3

        data = only(await world.fetch("m1", 0, 0, max_wait_ms=1_000))

        assert acquired(data) == [(3, 5, 1)]

    play(scenario)


@pytest.mark.parametrize(
    ("reset", "first"),
    [
        ("earliest", 0),
        ("latest", 6),
        ("by_duration:PT2H", 0),
        ("by_duration:PT1H", 3),
        ("by_duration:PT0S", 6),
    ],
)
def test_a_new_group_begins_where_its_setting_says(reset: str, first: int) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["share.auto.offset.reset"] = reset
        world.create_topic()
        world.append(count=3)
        world.clock.advance(5_000_000)
        world.append(count=3)
        world.clock.advance(1_000)
        waiting = asyncio.ensure_future(world.fetch("m1", 0, 0, max_wait_ms=LONG_MS))
        while not (found := world.shares.share_partitions.get(world.key())) or not found.core.is_active:
            await asyncio.sleep(0.001)
        world.append(count=1)

        assert acquired(only(await waiting))[0][0] == first

    play(scenario)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_state_that_cannot_be_read_is_an_error_and_read_again(
    error: ErrorCode, expected: ErrorCode
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=3)
        world.persister.error = error

        refused = only(await world.fetch("m1", 0, 0, max_wait_ms=20))
        world.persister.error = ErrorCode.NONE
        data = only(await world.fetch("m1", 1, max_wait_ms=LONG_MS))

        assert (refused.error_code, acquired(refused)) == (expected, [])
        assert acquired(data) == [(0, 2, 1)]

    play(scenario)


def test_a_write_that_is_fenced_drops_the_share_partition() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=3)
        await world.fetch("m1", 2)
        world.persister.error = ErrorCode.FENCED_STATE_EPOCH

        answer = await world.acknowledge("m1", 3, [(0, 2, [ACCEPT])])

        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(world.shares) == 0

    play(scenario)


def test_a_write_that_fails_is_taken_back() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=3)
        await world.fetch("m1", 2)
        world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE

        refused = await world.acknowledge("m1", 3, [(0, 2, [ACCEPT])])
        world.persister.error = ErrorCode.NONE
        accepted = await world.acknowledge("m1", 4, [(0, 2, [ACCEPT])])

        assert refused.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert accepted.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert world.shares.share_partitions[world.key()].core.start_offset == 3

    play(scenario)


# ---- acknowledgements --------------------------------------------------------------------------------------


def test_acknowledgements_come_with_the_next_fetch() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        world.append(count=3)
        await world.fetch("m1", 2)
        world.append(count=2, index=1)

        answer = await world.fetch("m1", 3, acknowledged={0: [(0, 1, [ACCEPT, REJECT]), (2, 2, [RELEASE])]})

        data = {one.partition_index: one for one in answer.responses[0].partitions}
        assert data[0].acknowledge_error_code == ErrorCode.NONE
        assert acquired(data[1]) == [(0, 1, 1)]
        assert world.persister.written[0].batches == [(0, 0, 2, 1), (1, 1, 4, 1), (2, 2, 0, 1)]
        assert world.shares.counters.acknowledged == [0, 1, 1, 1, 0]

    play(scenario)


@pytest.mark.parametrize(
    ("batches", "version", "fields"),
    [
        ([(2, 1, [ACCEPT])], 2, {}),
        ([(0, 1, [])], 2, {}),
        ([(0, 2, [ACCEPT, ACCEPT])], 2, {}),
        ([(1, 2, [ACCEPT]), (0, 0, [ACCEPT])], 2, {}),
        ([(0, 0, [5])], 2, {"is_renew_ack": True}),
        ([(0, 0, [-1])], 2, {}),
        ([(0, 0, [RENEW])], 2, {}),
        ([(0, 0, [RENEW])], 1, {"is_renew_ack": True}),
    ],
)
def test_invalid_acknowledgements_are_rejected(
    batches: list[tuple[int, int, list[int]]], version: int, fields: dict[str, Any]
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=3)
        await world.fetch("m1", 2)

        answer = await world.acknowledge("m1", 3, batches, version=version, **fields)

        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
        assert world.persister.written == []

    play(scenario)


def test_a_lock_is_renewed_by_a_fetch_that_fetches_nothing() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=3)
        await world.fetch("m1", 2)
        world.append(count=3)
        world.clock.advance(20_000)
        nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}

        answer = await world.fetch("m1", 3, is_renew_ack=True, acknowledged={0: [(0, 2, [RENEW])]}, **nothing)
        refused = await world.fetch("m1", 4, is_renew_ack=True, max_records=1)

        data = only(answer)
        assert (data.acknowledge_error_code, acquired(data)) == (ErrorCode.NONE, [])
        core = world.shares.share_partitions[world.key()].core
        assert core.next_expiry() == world.clock.now_ms() + 30_000
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_records_of_another_member_cannot_be_acknowledged() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=3)
        await world.fetch("m1", 2)

        answer = await world.acknowledge("m2", 2, [(0, 2, [ACCEPT])])

        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE

    play(scenario)


# ---- sessions ----------------------------------------------------------------------------------------------


def test_the_final_epoch_accepts_acknowledgements_and_releases_the_rest() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        world.append(count=4)
        await world.fetch("m1", 2)

        answer = await world.fetch("m1", -1, acknowledged={0: [(0, 1, [ACCEPT])]})
        again = await world.fetch("m1", -1)
        await world.run_pending()
        data = only(await world.fetch("m2", 2))

        assert only(answer).acknowledge_error_code == ErrorCode.NONE
        assert again.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert acquired(data) == [(2, 3, 2)]

    play(scenario)


def test_the_end_of_a_connection_releases_the_records_of_its_member() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.fetch("m1", 0, 0, context=world.context(number=7))
        await world.ready("m2")
        world.append(count=4)
        await world.fetch("m1", 1)
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()

        world.shares.connection_closed(7)
        await world.run_pending()
        data = only(await world.fetch("m2", 2))

        assert acquired(data) == [(0, 3, 2)]
        assert (await waiting).error_code in (ErrorCode.NONE, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        assert world.shares.sessions.evictions == 1

    play(scenario)


def test_the_last_session_of_a_group_takes_its_share_partitions_along() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        assert len(world.shares) == 2 and world.shares.used_bytes > 0

        world.shares.connection_closed(1)
        await world.run_pending()

        assert len(world.shares) == 0
        assert world.shares.used_bytes == 0

    play(scenario)


def test_a_connection_that_has_ended_gets_no_session() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.closed_connections.add(1)

        answer = await world.fetch("m1", 0, 0)

        assert answer.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert len(world.shares.sessions) == 0

    play(scenario)


def test_one_session_too_many_is_refused_when_the_time_of_its_fetch_is_over() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.fetch("m1", 0, 0)
        began_s = asyncio.get_running_loop().time()

        answer = await world.fetch("m2", 0, 0, max_wait_ms=50)

        assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert asyncio.get_running_loop().time() - began_s >= 0.04

    play(scenario, max_sessions=lambda: 1)


def test_a_session_does_not_begin_with_acknowledgements() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()

        answer = await world.fetch("m1", 0, acknowledged={0: [(0, 0, [ACCEPT])]})

        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_forgotten_partitions_are_not_fetched() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        for index in (0, 1):
            world.append(index=index)

        answer = await world.fetch("m1", 2, forgotten_topics_data=[{"topic_id": TOPIC_ID, "partitions": [0]}])

        assert only(answer).partition_index == 1

    play(scenario)


# ---- rights, and topics that do not exist ------------------------------------------------------------------


@pytest.mark.parametrize("member", [None, "", "m" * 37])
def test_a_member_has_an_id_of_at_most_36_characters(member: str | None) -> None:
    async def scenario(world: ShareWorld) -> None:
        fetched = await world.fetch(member, 0, 0)  # type: ignore[arg-type]
        acknowledged = await world.acknowledge(member, 1, [])  # type: ignore[arg-type]

        assert fetched.error_code == acknowledged.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_without_the_feature_there_are_no_share_groups() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.serves_share_groups = False

        fetched = await world.fetch("m1", 0, 0)
        acknowledged = await world.acknowledge("m1", 1, [])

        assert fetched.error_code == acknowledged.error_code == ErrorCode.UNSUPPORTED_VERSION

    play(scenario)


def test_a_group_must_be_named() -> None:
    async def scenario(world: ShareWorld) -> None:
        answer = await world.fetch("m1", 0, 0, group_id=None)

        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


def test_unknown_partitions_get_an_error_and_the_others_are_served() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append()
        await world.fetch("m1", 0, 0, 5, max_wait_ms=1_000)
        unknown_topic = await world.fetch("m2", 0, 0, topic_id=b"?" * 16)
        acknowledged = await world.acknowledge("m2", 1, [(0, 0, [ACCEPT])], topic_id=b"?" * 16)

        answer = await world.fetch("m1", 1)

        assert only(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert only(unknown_topic).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert acknowledged.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    play(scenario)


# ---- leaders -----------------------------------------------------------------------------------------------


def test_another_leader_is_named_in_waiting_fetches_and_in_acknowledgements() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(replicas=(1, OTHER_ID), isr=(1, OTHER_ID))
        await world.ready()
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()

        world.change_partition("t", 0, leader=OTHER_ID, leader_epoch=1)
        answer = await waiting
        data = only(answer)
        again = only(await world.fetch("m1", 3, max_wait_ms=LONG_MS))

        assert (data.error_code, again.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (OTHER_ID, 1)
        assert [(one.node_id, one.host) for one in answer.node_endpoints] == [(OTHER_ID, f"host{OTHER_ID}")]
        assert len(world.shares) == 0

    play(scenario)


def test_a_reelected_leader_goes_on_and_one_that_was_away_reads_the_state_again() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=2)
        await world.fetch("m1", 2)

        world.change_partition("t", 0, leader_epoch=1)
        accepted = await world.acknowledge("m1", 3, [(0, 0, [ACCEPT])])
        world.change_partition("t", 0, leader_epoch=3)
        unknown = await world.acknowledge("m1", 4, [(1, 1, [ACCEPT])])

        assert accepted.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert unknown.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await world.fetch("m1", 5)
        await world.run_pending()
        assert [one.leader_epoch for one in world.persister.reads] == [0, 3]

    play(scenario)


def test_records_acquired_late_in_a_long_wait_stay_acquired_while_other_sessions_begin() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS * 1_000))
        await world.run_pending()
        world.clock.advance(40_000)
        world.append(count=10)
        assert acquired(only(await waiting)) == [(0, 9, 1)]

        world.clock.advance(1_000)
        await world.ready("m2")

        assert not (await world.fetch("m2", 2)).responses
        assert not only(await world.acknowledge("m1", 3, [(0, 9, [1])])).error_code

    play(scenario)


@pytest.mark.parametrize("is_used", [True, False])
def test_a_state_unused_for_longer_than_a_lock_is_read_again_in_the_next_session(
    is_used: bool,
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=10)
        await world.ready()
        await world.fetch("m1", 2)
        world.clock.advance(31_000)
        world.shares.expire(world.key())
        if is_used:
            await world.fetch("m1", 3)

        known = world.shares.share_partitions[world.key()]
        await world.ready("m2")

        assert (world.shares.share_partitions[world.key()] is known) == is_used
        assert len(world.persister.reads) == 2, "the state of a share-partition in use is checked"

    play(scenario)


def test_a_reset_state_is_read_even_if_a_dead_member_has_a_session() -> None:
    """All members have left, the offsets were altered, and one is back within the time of a lock."""

    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        world.append(count=10)
        await world.ready("m1")
        await world.fetch("m1", 2)
        assert not only(await world.acknowledge("m1", 3, [(0, 9, [1])])).error_code
        world.clock.advance(100)
        world.persister.state_epoch = 1

        known = world.shares.share_partitions[world.key()]
        await world.ready("m2")
        await world.run_pending()
        await world.fetch("m2", 2)
        await world.run_pending()

        assert known.is_gone and len(only(await world.fetch("m2", 3)).acquired_records) == 1

    play(scenario)


def test_a_deleted_topic_takes_its_share_partitions_along() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        waiting = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()

        world.delete_topic("t")

        await waiting
        assert len(world.shares) == 0
        assert only(await world.fetch("m1", 3)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_records_that_the_log_has_lost_are_skipped() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        for _ in range(3):
            world.append(count=10)
        world.partition().delete_records_before(20)

        data = only(await world.fetch("m1", 2))

        assert acquired(data) == [(20, 29, 1)]

    play(scenario)


# ---- quotas and memory -------------------------------------------------------------------------------------


class OverQuota:
    """A client over its quota."""

    def most_fetched_bytes(self) -> int:
        return 1 << 20

    def count_fetched(self, size_bytes: int) -> int:
        return 500 if size_bytes else 0


def test_a_client_over_its_quota_acquires_nothing() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        world.append(count=3)

        throttled = await world.fetch("m1", 2, context=world.context(charge=OverQuota()))
        data = only(await world.fetch("m1", 3))

        assert (throttled.error_code, throttled.responses) == (ErrorCode.NONE, [])
        assert acquired(data) == [(0, 2, 1)]

    play(scenario)


def test_without_memory_no_share_partition_is_created() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)

        answer = await world.fetch("m1", 0, 0, 1, max_wait_ms=100)

        codes = [one.error_code for one in answer.responses[0].partitions]
        assert sorted(codes) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
        assert len(world.shares) == 1

    play(scenario, limit_bytes=LED_BYTES)


def test_very_many_partitions_begin_and_end_some_at_a_time() -> None:
    async def scenario(world: ShareWorld) -> None:
        count = MAX_BEGUN + 10
        world.create_topic(partitions=count)
        for index in range(count):
            world.append(index=index)
        await world.fetch("m1", 0, *range(count))
        assert len(world.shares) == MAX_BEGUN

        await world.fetch("m1", 1)
        assert len(world.shares) == count
        await world.run_pending()
        await world.fetch("m1", 2)
        world.shares.connection_closed(1)
        while len(world.shares):
            await asyncio.sleep(0.001)
        world.shares.sessions.check_invariants()

    play(scenario)


def test_of_very_many_partitions_each_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetch, "MAX_LOOKED_AT", 3)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=8)
        for index in range(8):
            world.append(index=index)
        await world.fetch("m1", 0, *range(8))
        given: list[int] = []
        for epoch in range(1, 9):
            await world.run_pending()
            answer = await world.fetch("m1", epoch)
            given += [one.partition_index for topic in answer.responses for one in topic.partitions]

        assert sorted(given) == list(range(8))

    play(scenario)


def test_very_many_sessions_of_one_connection_end_with_it() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        for number in range(MAX_BEGUN):
            await world.fetch(f"m{number}", 0, 0)

        world.shares.connection_closed(1)
        while len(world.shares.sessions):
            await asyncio.sleep(0.001)
        await world.run_pending()

        assert len(world.shares) == 0
        world.shares.sessions.check_invariants()

    play(scenario, max_sessions=lambda: 2 * MAX_BEGUN)


def test_large_records_go_from_their_file_to_the_socket() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.log_manager.disk.is_sendable = True
        world.create_topic()
        await world.ready()
        for _ in range(3):
            world.append(value=bytes(MIN_SENT_FILE_BYTES))
        size = len(batch(1, value=bytes(MIN_SENT_FILE_BYTES)))
        await world.fetch("m1", 2, max_records=1)

        data = only(await world.fetch("m1", 3))

        assert acquired(data) == [(1, 2, 1)]
        assert isinstance(data.records, FileRecords)
        assert (data.records.position, data.records.size) == (size, 2 * size)

    play(scenario)


@pytest.mark.parametrize("max_wait_ms", [0, LONG_MS])
def test_records_that_are_not_in_memory_are_read_in_a_thread(max_wait_ms: int) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        await world.ready("m2")
        for _ in range(3):
            world.append(count=10)
        world.log_manager.disk.is_cached = False

        both = await asyncio.gather(
            world.fetch("m1", 2, max_records=10, max_wait_ms=max_wait_ms),
            world.fetch("m2", 2, max_records=20, max_wait_ms=LONG_MS),
        )

        given = sorted(place for one in both for place in acquired(only(one)))
        assert given == [(0, 9, 1), (10, 29, 1)] or max_wait_ms
        assert sum(last - first + 1 for first, last, _ in given) == 30
        for one in both:
            assert offsets_in(only(one)) == [
                base for base in (0, 10, 20) if acquired(only(one))[0][0] <= base <= acquired(only(one))[0][1]
            ]

    play(scenario)


def test_the_state_is_requested_under_the_name_of_the_group() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()

        assert {one.key.group for one in world.persister.reads} == {GROUP}

    play(scenario)


def test_acknowledgements_of_very_many_records_take_turns_and_are_answered_when_written() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        for _ in range(MAX_ACKNOWLEDGED + 1):
            world.append()
        await world.fetch("m1", 0, 0)
        await world.run_pending()
        await world.fetch("m1", 1, max_records=2 * MAX_ACKNOWLEDGED, batch_size=2 * MAX_ACKNOWLEDGED)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        one_by_one = [(offset, offset, [1 + offset % 2]) for offset in range(MAX_ACKNOWLEDGED + 1)]
        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count_turns())
            answer = await world.acknowledge("m1", 2, one_by_one)
            counting.cancel()

        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert turns > 1
        (led,) = world.shares.share_partitions.values()
        assert {state for _, _, state, _ in led.core.states()} == {0, 2}

    play(scenario)


def test_locks_that_end_in_the_midst_of_a_refused_acknowledgement_are_freed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN_CPU_S", 0)  # others have the loop after a few steps

    async def scenario(world: ShareWorld) -> None:
        count = MAX_ACKNOWLEDGED + 1
        world.create_topic()
        for _ in range(count):
            world.append()
        await world.ready("m1")
        await world.fetch("m1", 2, max_records=2 * count, batch_size=2 * count)
        one_by_one = [(offset, offset, [ACCEPT]) for offset in range(count)]
        acknowledged = asyncio.ensure_future(world.acknowledge("m1", 3, one_by_one))
        (led,) = world.shares.share_partitions.values()
        while {state for _, _, state, _ in led.core.states()} == {ACQUIRED}:  # until some are accepted
            await asyncio.sleep(0)
        world.clock.advance(60_000)
        world.shares.expire(world.key())
        answer = await acknowledged
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE

        # The timer of the share-partition fires by itself.
        while {state for _, _, state, _ in led.core.states()} != {AVAILABLE}:
            await asyncio.sleep(0.001)

    play(scenario)


# ---- unexpected records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["read_delays", "is_read_soon"])
def test_records_whose_delay_cannot_be_read_do_not_end_the_node(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise OverflowError("unsigned int is less than minimum")

    monkeypatch.setattr(share_fetch_parts, where, fail)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=DELAYING)
        await world.ready()
        fetched = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()
        world.append()

        assert acquired(only(await fetched)) == [(0, 0, 1)]  # at once

    play(scenario)


def test_records_that_cannot_be_delivered_do_not_end_the_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> Any:
        raise OverflowError("unsigned int is less than minimum")

    monkeypatch.setattr(DelayedIndex, "add", fail)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=DELAYING)
        await world.ready()
        fetched = asyncio.ensure_future(world.fetch("m1", 2, max_wait_ms=LONG_MS))
        await world.run_pending()
        world.partition().append_as_leader(
            build_batch([(None, b"", world.clock.now_ms(), (("ottla.deliver.after.ms", b"1000"),))]),
            required_acks=1,
            now_ms=world.clock.now_ms(),
            produce_version=9,
        )

        response = await fetched

        (data,) = response.responses[0].partitions
        assert data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not world.shares.share_partitions  # the next fetch reads its state again
        assert caplog.text.count("cannot be delivered") == 1

    play(scenario)
