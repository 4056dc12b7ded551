"""Members reject records, and a node writes their dead letters: destinations, contents and failures."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import WriteState
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record import Record, build_batch, iterate_records
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share import dead_letter_queue
from ottla.node.share.dead_letter_queue import MAX_ATTEMPTS, DeadLetterWorld
from ottla.node.share.dead_letter_topic import Destination, TopicRules, find_destination
from ottla.node.share.dead_letters import read_note
from ottla.node.share.letter_batch import MAX_LETTERS
from ottla.node.share.letter_producer import LetterProducer
from ottla.node.share.share_group_settings import DeadLetterSettings
from tests.unit.node.kafka_api.share_world import GROUP, ShareWorld, acquired, play
from tests.unit.node.kafka_api.test_share_fetch import only

ACCEPT, RELEASE, REJECT = 1, 2, 3
DLQ = LogConfig(errors_deadletterqueue_group_enable=True)


class Letters:
    """The parts of a node that write dead letters in a ShareWorld; a test can make them fail."""

    def __init__(self) -> None:
        self.world: ShareWorld
        self.failures: list[ErrorCode] = []
        self.answers_lost = 0
        self.pauses: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None  # called in a pause
        self.may_create = False
        self.created: list[str] = []
        self.producer_id = 40
        self.topics: dict[int, str] = {}  # by source partition, if they differ from the group's setting
        self.hangs = ""  # batches to this topic are in flight until `released`
        self.released = asyncio.Event()
        self.fails = False
        self.corrupt = b""  # batches with these origins, "topic:partition", are damaged in flight
        self.producer_failures = 0  # the number of requests for a producer id that fail
        self.ahead_ms = 0  # the clock of this node is ahead of that of the topic's leader

    def destination(self, group: str, settings: DeadLetterSettings, partition: int) -> Destination | None:
        return find_destination(
            self.world.metadata.image,
            lambda topic: self.world.configs.get(topic, LogConfig()),
            TopicRules("dlq.", self.may_create),
            group=group,
            topic=self.topics.get(partition, settings.topic),
            source_partition=partition,
        )

    async def create(self, topic: str) -> None:
        self.created.append(topic)
        self.world.create_topic(topic, config=DLQ)

    async def producer(self) -> int:
        if self.producer_failures:
            self.producer_failures -= 1
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        self.producer_id += 1
        return self.producer_id

    async def produce(self, topic_id: bytes, partition: int, batch: bytearray) -> None:
        world = self.world
        if self.hangs and world.metadata.image.topics.by_id[topic_id].name == self.hangs:
            await self.released.wait()
        origin = dict(next(iterate_records(batch)).headers) if self.corrupt else {}
        place = [origin.get(f"__dlq.errors.{name}") or b"" for name in ("topic", "partition")]
        if self.corrupt and self.corrupt == b":".join(place):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        if self.fails:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if self.failures:
            raise KafkaError(self.failures.pop(0))
        send = LetterProducer(
            node_id=1,
            image=lambda: world.metadata.image,
            replicas=world.replica_manager,
            ask=None,  # type: ignore[arg-type]  # this node leads
            in_thread=asyncio.to_thread,
            clock=world.clock,
            timeout_ms=lambda: 1_000,
            is_cut_off=lambda: world.is_cut_off,
        )
        await send(topic_id, partition, batch)
        if self.answers_lost:
            self.answers_lost -= 1
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.meanwhile()
        await asyncio.sleep(0)

    def parts(self) -> DeadLetterWorld:
        def max_message_bytes(topic_id: bytes) -> int | None:
            topic = self.world.metadata.image.topics.by_id.get(topic_id)
            return None if topic is None else self.world.configs[topic.name].max_message_bytes

        return DeadLetterWorld(
            destination=self.destination,
            max_message_bytes=max_message_bytes,
            create_topic=self.create,
            next_producer_id=self.producer,
            produce=self.produce,
            clock=_WorldClock(self),  # type: ignore[arg-type]
            in_thread=asyncio.to_thread,
            sleep=self.sleep,
            chance=lambda: 0.5,
        )


class _WorldClock:
    """The clock of a world that is created later."""

    def __init__(self, letters: Letters) -> None:
        self._letters = letters

    def now_ms(self) -> int:
        return self._letters.world.clock.now_ms() + self._letters.ahead_ms


Scenario = Callable[[ShareWorld, Letters], Coroutine[Any, Any, None]]


def play_with_letters(scenario: Scenario, **own: str) -> None:
    """Play a scenario of a group with the dead letter topic dlq.t, in which a member holds four records."""
    letters = Letters()

    async def prepared(world: ShareWorld) -> None:
        letters.world = world
        world.own |= {"errors.deadletterqueue.topic.name": "dlq.t", **own}
        world.create_topic()
        await world.ready("m1")
        for number in range(4):
            world.append(value=b"value %d" % number)
        fetched = only(await world.fetch("m1", 2))
        assert sum(last - first + 1 for first, last, _ in acquired(fetched)) == 4
        await scenario(world, letters)

    play(prepared, dead_letters=letters.parts())


async def hold_all(world: ShareWorld, member: str, topic_id: bytes, partitions: int) -> None:
    """Let a member acquire the records of `partitions` partitions."""
    await world.fetch(member, 0, *range(partitions), topic_id=topic_id, max_records=0)
    await world.fetch(member, 1, topic_id=topic_id)
    await world.run_pending()
    await world.fetch(member, 2, topic_id=topic_id)


async def written_or_given_up(world: ShareWorld) -> None:
    """Wait until all dead letters are written or given up."""
    await asyncio.sleep(0.005)
    while any(led.is_awaiting_letters for led in world.shares.share_partitions.values()):
        await asyncio.sleep(0.005)


async def written(world: ShareWorld, topic: str = "dlq.t") -> list[Record]:
    """Return the dead letters once all are written or given up."""
    await written_or_given_up(world)
    log = world.partition(topic).log
    found = log.read(0, 1 << 30, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
    content = bytes(found.slice.read())
    return [
        record
        for position, header in iterate_headers(content)
        for record in iterate_records(content[position : position + header.size_bytes])
    ]


def offsets(records: list[Record]) -> list[int]:
    return [int(dict(one.headers)["__dlq.errors.offset"] or b"") for one in records]


def notes(world: ShareWorld) -> list[bool | None]:
    """Return, for each write, True if letters are in flight; None if the write has no note."""
    return [
        None if write.dead_letters is None else read_note(write.dead_letters).letters is not None
        for write in world.persister.written
    ]


def last_write(world: ShareWorld) -> WriteState:
    return world.persister.written[-1]


def test_rejected_records_are_archived_once_their_letters_are_written() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)

        await world.acknowledge(
            "m1", 3, [(0, 0, [ACCEPT]), (1, 1, [REJECT]), (2, 2, [ACCEPT]), (3, 3, [REJECT])]
        )

        found = await written(world)
        assert offsets(found) == [1, 3]
        assert [(one.key, one.value) for one in found] == [(None, None)] * 2
        assert dict(found[0].headers) == {
            "__dlq.errors.topic": b"t",
            "__dlq.errors.partition": b"0",
            "__dlq.errors.offset": b"1",
            "__dlq.errors.group": GROUP.encode(),
            "__dlq.errors.delivery.count": b"1",
            "__dlq.errors.message": b"Offset rejected by client.",
        }
        # Set aside; noted; archived, without the note.
        states = [[tuple(one)[2] for one in write.batches] for write in world.persister.written]
        assert states == [[2, 3, 2, 3], [3, 3], [4, 4]]
        assert notes(world) == [None, True, False]
        assert last_write(world).start_offset == 4
        counts = world.shares.counters.dead_letters[GROUP]
        assert (counts.records, counts.produces, counts.failed_produces) == (2, 1, 0)

    play_with_letters(scenario)


def test_letters_have_the_contents_of_the_records_if_the_group_wants_them() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)

        await world.acknowledge("m1", 3, [(1, 2, [REJECT])])

        found = await written(world)
        assert [(one.key, one.value) for one in found] == [(b"key", b"value 1"), (b"key", b"value 2")]

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


def test_a_record_whose_last_lock_expires_has_a_letter_too() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        await world.acknowledge("m1", 3, [(0, 3, [RELEASE])])
        await world.fetch("m1", 4)

        world.clock.advance(15_000)
        world.shares.expire(world.key())

        found = await written(world)
        assert offsets(found) == [0, 1, 2, 3]
        assert {dict(one.headers)["__dlq.errors.message"] for one in found} == {
            b"Offset delivery count exceeded the threshold."
        }

    play_with_letters(
        scenario, **{"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "15000"}
    )


def test_a_missing_dead_letter_topic_is_created_if_the_cluster_allows_it() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        letters.may_create = True

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])
        await world.run_pending()

        assert offsets(await written(world)) == [0, 1, 2, 3]
        assert letters.created == ["dlq.t"]

    play_with_letters(scenario)


def test_without_a_topic_records_are_archived_after_some_attempts_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        await world.acknowledge("m1", 3, [(0, 1, [REJECT])])
        await written_or_given_up(world)
        assert letters.pauses == [1.0, 2.0, 4.0, 8.0]
        await world.acknowledge("m1", 4, [(2, 3, [REJECT])])
        await written_or_given_up(world)
        assert letters.pauses == [1.0, 2.0, 4.0, 8.0]  # for a minute only one attempt is made
        assert [tuple(one) for one in last_write(world).batches] == [(2, 3, 4, 1)]
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 2
        assert caplog.text.count("auto create is disabled") == 1
        # Other records are served meanwhile.
        world.append(count=2)
        assert acquired(only(await world.fetch("m1", 5))) == [(4, 5, 1)]

    with caplog.at_level(logging.ERROR):
        play_with_letters(scenario)


def test_a_topic_that_is_not_for_dead_letters_gets_none(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=LogConfig())
        for offset in range(4):
            await world.acknowledge("m1", 3 + offset, [(offset, offset, [REJECT])])
            await written_or_given_up(world)

        assert await written(world) == []
        assert letters.pauses == []
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 4
        assert caplog.text.count("DLQ is not enabled") == 1  # once a minute
        assert last_write(world).start_offset == 4

    with caplog.at_level(logging.ERROR):
        play_with_letters(scenario)


@pytest.mark.parametrize("failures", [1, MAX_ATTEMPTS - 1])
def test_letters_with_a_passing_failure_are_retried(failures: int) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * failures

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert offsets(await written(world)) == [0, 1, 2, 3]
        counts = world.shares.counters.dead_letters[GROUP]
        assert (counts.produces, counts.failed_produces) == (failures + 1, 0)

    play_with_letters(scenario)


def test_a_batch_whose_response_is_lost_is_written_once() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.answers_lost = 3

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert offsets(await written(world)) == [0, 1, 2, 3]

    play_with_letters(scenario)


@pytest.mark.parametrize(
    ("failures", "pauses"),
    [
        ([ErrorCode.NOT_ENOUGH_REPLICAS] * MAX_ATTEMPTS, MAX_ATTEMPTS - 1),
        ([ErrorCode.INVALID_RECORD], 0),
        ([ErrorCode.INVALID_TIMESTAMP] * 2, 0),
    ],
)
def test_letters_with_a_lasting_failure_are_given_up(
    failures: list[ErrorCode], pauses: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = list(failures)

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert await written(world) == []
        assert len(letters.pauses) == pauses
        assert last_write(world).start_offset == 4 and notes(world)[-1] is False
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 1
        assert failures[0].name in caplog.text

    with caplog.at_level(logging.ERROR):
        play_with_letters(scenario)


def test_a_topic_that_rejects_the_contents_of_records_gets_letters_without_them() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.INVALID_RECORD]

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        found = await written(world)
        assert (offsets(found), {one.value for one in found}) == ([0, 1, 2, 3], {None})

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_leader_whose_clock_differs_gets_letters_without_a_time(hours: int) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=replace(DLQ, message_timestamp_before_max_ms=3_600_000))
        letters.ahead_ms = hours * 3_600_000

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        found = await written(world)
        assert [(one.value, one.timestamp) for one in found] == [(b"value %d" % at, -1) for at in range(4)]
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 0

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


def test_a_topic_that_rejects_copies_for_their_times_gets_letters_without_them() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.INVALID_TIMESTAMP] * 2

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        found = await written(world)
        assert (offsets(found), {one.value for one in found}) == ([0, 1, 2, 3], {None})

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


@pytest.mark.parametrize("refusal", [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP])
def test_the_last_attempt_is_repeated_without_what_the_topic_rejects(refusal: ErrorCode) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [*[ErrorCode.NOT_LEADER_OR_FOLLOWER] * (MAX_ATTEMPTS - 1), refusal]

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert offsets(await written(world)) == [0, 1, 2, 3]
        assert len(letters.pauses) == MAX_ATTEMPTS - 1

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


def test_a_recreated_topic_gets_the_letters_for_the_deleted_one() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

        def create_again() -> None:
            world.delete_topic("dlq.t")
            world.create_topic("dlq.t", config=DLQ, topic_id=b"another".ljust(16, b"."))

        letters.meanwhile = create_again

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert offsets(await written(world)) == [0, 1, 2, 3]

    play_with_letters(scenario)


def test_batches_respect_the_limit_of_the_dead_letter_topic() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        small = LogConfig(errors_deadletterqueue_group_enable=True, max_message_bytes=400)
        world.create_topic("dlq.t", config=small)

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert offsets(await written(world)) == [0, 1, 2, 3]
        assert world.shares.counters.dead_letters[GROUP].produces > 1

    play_with_letters(scenario)


@pytest.mark.parametrize("max_message_bytes", [100, 0])
def test_a_topic_that_accepts_no_letter_at_all_delays_no_other(max_message_bytes: int) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        tiny = LogConfig(errors_deadletterqueue_group_enable=True, max_message_bytes=max_message_bytes)
        world.create_topic("dlq.t", config=tiny)

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        assert await written(world) == []
        assert last_write(world).start_offset == 4

    play_with_letters(scenario)


def test_requests_to_an_unavailable_coordinator_are_retried() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        world.persister.may_proceed.clear()
        acknowledged = asyncio.ensure_future(world.acknowledge("m1", 3, [(0, 3, [REJECT])]))
        await world.run_pending()
        world.persister.may_proceed.set()
        await acknowledged
        world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        while notes(world).count(True) < 2:
            await asyncio.sleep(0.001)
        assert world.partition("dlq.t").log.log_end_offset == 0  # nothing is sent before its note is written

        world.persister.error = ErrorCode.NONE

        assert offsets(await written(world)) == [0, 1, 2, 3]
        written_notes = [write.dead_letters for write in world.persister.written if write.dead_letters]
        assert len(written_notes) > len(set(written_notes)) == 2  # always the same note, until it is written

    play_with_letters(scenario)


def test_a_batch_with_false_offsets_blocks_no_other_letters() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        world.partition().log.config = LogConfig(validate_records=False)
        false_batch = build_batch([Record(0, 0, None, b"value")] * 600, base_offset=0, last_offset=599)
        world.partition().append_as_leader(false_batch, required_acks=1, now_ms=0, produce_version=9)
        assert acquired(only(await world.fetch("m1", 3, max_records=1_000))) == [(4, 603, 1)]

        await world.acknowledge("m1", 4, [(0, 3, [ACCEPT]), (4, 603, [REJECT])])

        assert offsets(await written(world)) == [4]
        assert last_write(world).start_offset == 604

    play_with_letters(scenario)


def test_at_most_one_batch_of_letters_is_written_for_offsets_that_the_log_loses_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        partition = world.partition()
        partition.log.config = LogConfig(validate_records=False)
        # Like a compacted batch with one record left.
        few = build_batch([Record(1_999, 0, None, b"value")] * 2_000, base_offset=0, last_offset=1_999)
        partition.append_as_leader(few, required_acks=1, now_ms=0, produce_version=9)
        await world.fetch("m1", 3, max_records=2_000)
        letters.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        letters.meanwhile = lambda: partition.delete_records_before(2_004)

        await world.acknowledge("m1", 4, [(0, 3, [ACCEPT]), (4, 2_003, [REJECT])])

        assert offsets(await written(world)) == list(range(4, 4 + MAX_LETTERS))
        assert last_write(world).start_offset == 2_004
        counts = world.shares.counters.dead_letters[GROUP]
        assert (counts.records, counts.failed_produces) == (MAX_LETTERS, 1)
        assert f"from offset {4 + MAX_LETTERS} to 2003" in caplog.text

    with caplog.at_level(logging.ERROR):
        play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


@pytest.mark.parametrize("letter_partitions", [1, 200], ids=["one partition", "many partitions"])
def test_an_unreachable_topic_delays_the_letters_of_no_other(letter_partitions: int) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", partitions=letter_partitions, config=DLQ)
        world.create_topic("dlq.other", config=DLQ)
        many = world.create_topic("many", partitions=200).topic_id
        other = world.create_topic("u").topic_id
        letters.hangs = "dlq.t"
        for name, index in [*(("many", index) for index in range(200)), ("u", 0)]:
            world.append(name, index=index)
        await hold_all(world, "m2", many, 200)
        for epoch, index in enumerate(range(200), 3):
            await world.acknowledge("m2", epoch, [(0, 0, [REJECT])], partition=index, topic_id=many)
        await asyncio.sleep(0.1)
        letters.topics[0] = "dlq.other"
        await hold_all(world, "m3", other, 1)

        await world.acknowledge("m3", 3, [(0, 0, [REJECT])], topic_id=other)

        while not world.partition("dlq.other").log.log_end_offset:
            await asyncio.sleep(0.01)
        letters.hangs = ""
        letters.released.set()
        await world.acknowledge("m1", 3, [(0, 3, [ACCEPT])])
        await written_or_given_up(world)
        logs = [world.partition("dlq.t", index).log for index in range(letter_partitions)]
        assert sum(one.log_end_offset for one in logs) == 200

    play_with_letters(scenario)


def test_share_partitions_whose_letters_go_to_one_partition_make_attempts_together() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        many = world.create_topic("many", partitions=40).topic_id
        for index in range(40):
            world.append("many", index=index)
        await hold_all(world, "m2", many, 40)
        letters.fails = True

        for epoch, index in enumerate(range(40), 3):
            await world.acknowledge("m2", epoch, [(0, 0, [REJECT])], partition=index, topic_id=many)

        await written_or_given_up(world)
        counts = world.shares.counters.dead_letters[GROUP]
        assert counts.failed_produces == 40  # each gives up
        assert counts.produces < 40 * MAX_ATTEMPTS / 2
        assert world.shares.view(world.key(), 1) is not None

    play_with_letters(scenario)


def test_a_batch_that_its_leader_rejects_costs_other_batches_no_attempts() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        many = world.create_topic("many", partitions=9).topic_id
        for index in range(9):
            world.append("many", index=index)
        await hold_all(world, "m2", many, 9)
        letters.corrupt = b"many:0"

        for epoch, index in enumerate(range(9), 3):
            await world.acknowledge("m2", epoch, [(0, 0, [REJECT])], partition=index, topic_id=many)

        found = await written(world)
        assert sorted(dict(one.headers)["__dlq.errors.partition"] or b"" for one in found) == [
            b"%d" % index for index in range(1, 9)
        ]
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 1
        assert letters.pauses == [1.0, 2.0, 4.0, 8.0]

    play_with_letters(scenario)


@pytest.mark.parametrize("fails_first", ["controller", "batch"])
def test_after_letters_are_given_up_the_next_ones_have_all_attempts(fails_first: str) -> None:
    """Only a missing topic limits the attempts to one, for a minute."""

    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        if fails_first == "batch":
            letters.failures = [ErrorCode.INVALID_RECORD]
        else:
            letters.producer_failures = MAX_ATTEMPTS
        await world.acknowledge("m1", 3, [(0, 0, [REJECT])])
        await written_or_given_up(world)
        assert world.shares.counters.dead_letters[GROUP].failed_produces == 1
        failure = world.shares.share_partitions[world.key()].letter_failure
        assert failure is (ErrorCode.INVALID_RECORD if fails_first == "batch" else ErrorCode.NOT_CONTROLLER)

        world.shares.share_partitions[world.key()].letter_producer = None
        letters.producer_failures = 1
        await world.acknowledge("m1", 4, [(1, 1, [REJECT])])

        assert offsets(await written(world)) == [1]

    play_with_letters(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT])
def test_a_coordinator_out_of_reach_is_not_taken_for_the_topic(error: ErrorCode) -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])
        world.persister.error = error

        def failure() -> int | None:
            view = world.shares.view(world.key(), 1)
            return None if view is None else view.letter_failure

        while failure() == ErrorCode.NONE:
            await asyncio.sleep(0.001)
        assert failure() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.persister.error = ErrorCode.NONE
        assert offsets(await written(world)) == [0, 1, 2, 3]

    play_with_letters(scenario)


def test_the_reason_why_letters_are_not_written_is_shown_until_one_is() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        def failure() -> int:
            view = world.shares.view(world.key(), 1)
            assert view is not None
            return view.letter_failure

        await world.acknowledge("m1", 3, [(0, 0, [REJECT])])
        await written_or_given_up(world)
        assert failure() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * MAX_ATTEMPTS
        await world.acknowledge("m1", 4, [(1, 1, [REJECT])])
        await written_or_given_up(world)
        assert failure() == ErrorCode.NOT_ENOUGH_REPLICAS

        await world.acknowledge("m1", 5, [(2, 2, [REJECT])])

        await written(world)
        assert failure() == ErrorCode.NONE

    play_with_letters(scenario)


def test_letters_given_up_count_as_lost_until_the_setting_is_removed() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        led = world.shares.share_partitions[world.key()]
        letters.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * MAX_ATTEMPTS
        seen: list[tuple[ErrorCode, bool]] = []
        letters.meanwhile = lambda: seen.append((led.letter_failure, led.letters_lost))

        await world.acknowledge("m1", 3, [(0, 0, [REJECT])])
        await written_or_given_up(world)

        assert seen == [(ErrorCode.NOT_ENOUGH_REPLICAS, False)] * (MAX_ATTEMPTS - 1)
        assert (led.letter_failure, led.letters_lost) == (ErrorCode.NOT_ENOUGH_REPLICAS, True)
        assert 0 < led.letter_failed_s <= asyncio.get_running_loop().time()

        world.persister.may_proceed.clear()
        rejection = asyncio.ensure_future(world.acknowledge("m1", 4, [(1, 1, [REJECT])]))
        await world.run_pending()
        world.own["errors.deadletterqueue.topic.name"] = ""
        world.persister.may_proceed.set()
        await rejection
        await written_or_given_up(world)
        assert (led.letter_failure, led.letters_lost) == (ErrorCode.NONE, False)

    play_with_letters(scenario)


@pytest.mark.parametrize("fails", ["read_sources", "take_fitting", "letter_batch"])
def test_unexpected_records_are_archived_and_the_node_goes_on(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise OverflowError("unsigned int is less than minimum")

    monkeypatch.setattr(dead_letter_queue, fails, fail)

    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])

        # Records that cannot be read have letters without their contents.
        assert offsets(await written(world)) == ([0, 1, 2, 3] if fails == "read_sources" else [])
        assert last_write(world).start_offset == 4 and notes(world)[-1] is False
        assert world.shares.counters.dead_letters[GROUP].failed_produces == (fails != "read_sources")

    play_with_letters(scenario, **{"errors.deadletterqueue.copy.record.enable": "true"})


def test_the_last_member_may_go_before_the_letters_are_written() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        letters.failures = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2

        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])
        world.shares.connection_closed(1)

        assert offsets(await written(world)) == [0, 1, 2, 3]
        await world.run_pending()
        assert not world.shares.share_partitions

    play_with_letters(scenario)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_member_that_joins_while_letters_are_owed_has_the_state_read_again(partition: int) -> None:
    """The group may have been deleted and recreated meanwhile, or its offsets altered.

    A member that reads another partition would not get the letters of this one written.
    """

    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.persister.may_proceed.clear()
        rejection = asyncio.ensure_future(world.acknowledge("m1", 3, [(0, 3, [REJECT])]))
        await world.run_pending()
        ended = asyncio.ensure_future(world.fetch("m1", -1))
        await world.run_pending()
        reads = len(world.persister.reads)

        fetching = asyncio.ensure_future(world.fetch("m2", 0, partition))
        await world.run_pending()
        world.persister.may_proceed.set()
        await asyncio.gather(rejection, ended, fetching)
        await world.fetch("m2", 1)

        assert world.key() in {one.key for one in world.persister.reads[reads:]}

    play_with_letters(scenario)


def test_no_letter_is_sent_while_a_rejection_is_being_written() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        world.persister.may_proceed.clear()
        tasks = len(asyncio.all_tasks())
        rejection = asyncio.ensure_future(world.acknowledge("m1", 3, [(0, 1, [REJECT])]))
        await world.run_pending()

        world.shares.expire(world.key())  # another lock may expire meanwhile
        await world.run_pending()

        assert len(asyncio.all_tasks()) == tasks + 2, "there is a task besides the request and the write"
        world.persister.may_proceed.set()
        await rejection
        assert len(await written(world)) == 2

    play_with_letters(scenario)


@pytest.mark.parametrize(
    ("batches", "ignored"),
    [([(0, 0, [REJECT]), (1, 3, [ACCEPT])], 1), ([(0, 3, [REJECT, ACCEPT, 0, REJECT])], 2)],
    ids=["batches", "types"],
)
def test_a_cluster_at_a_level_without_dead_letters_logs_the_records_that_it_archives(
    batches: list[tuple[int, int, list[int]]], ignored: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The share.version of an upgraded cluster may stay 1 until it is raised."""

    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.create_topic("dlq.t", config=DLQ)
        world.has_dead_letters = False
        await world.fetch("m1", 3)

        await world.acknowledge("m1", 4, batches)

        assert await written(world) == []
        assert world.persister.written[0].start_offset == 0
        assert {state for write in world.persister.written for _, _, state, _ in write.batches} == {2, 4}
        assert world.shares.counters.dead_letters[GROUP].ignored == ignored
        await world.fetch("m1", 5)
        assert caplog.text.count("kafka-features upgrade --feature share.version=2") == 1
        world.clock.advance(60_000)
        await world.fetch("m1", 6)
        assert f"{ignored} of its records were archived without dead letters" in caplog.text

        world.has_dead_letters = True  # it was raised
        world.append(value=b"value 4")
        assert acquired(only(await world.fetch("m1", 7))) == [(4, 4, 1)]
        await world.acknowledge("m1", 8, [(4, 4, [REJECT])])
        assert offsets(await written(world)) == [4]
        assert world.shares.counters.dead_letters[GROUP].ignored == ignored

    with caplog.at_level(logging.ERROR):
        play_with_letters(scenario)


def test_an_expired_lock_is_counted_if_the_cluster_has_no_dead_letters() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        world.has_dead_letters = False
        await world.acknowledge("m1", 3, [(0, 3, [RELEASE])])
        await world.fetch("m1", 4)

        world.clock.advance(15_000)
        world.shares.expire(world.key())
        await world.run_pending()

        assert world.shares.counters.dead_letters[GROUP].ignored == 4

    play_with_letters(
        scenario, **{"share.delivery.count.limit": "2", "share.record.lock.duration.ms": "15000"}
    )


def test_a_group_without_the_setting_archives_rejected_records() -> None:
    async def scenario(world: ShareWorld, letters: Letters) -> None:
        await world.acknowledge("m1", 3, [(0, 3, [REJECT])])
        await world.run_pending()

        [write] = world.persister.written
        assert [tuple(one) for one in write.batches] == [(0, 3, 4, 1)]

    play_with_letters(scenario, **{"errors.deadletterqueue.topic.name": ""})
