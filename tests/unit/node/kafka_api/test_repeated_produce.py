"""Produce requests with a known head get the response of the general path, byte for byte."""

import asyncio
import random
import struct
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.logstore.batch_validator import MAX_RECOMPRESSED_AT_ONCE_BYTES
from ottla.logstore.compression import Compression, compress, decompress
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, seal_batch
from ottla.logstore.record_batch import HEADER_SIZE, TRANSACTIONAL_BIT, read_header
from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.metadata_raft.acl_set import AclSet, AuthorizerSettings
from ottla.node.authorization.authorizer import Authorizer
from ottla.node.kafka_api import produce_heads
from ottla.node.net.answers import CloseConnection, Pending
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.wire import codec as codec_of
from ottla.node.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.node.fakes import Gate, connection_of
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID, OTHER_ID, ReplicaWorld

PEER = connection_of(CONNECTION)
VERSIONS = range(3, 14)
NOW_MS = ReplicaWorld().clock.now_ms()


class Node:
    """A node whose dispatcher remembers heads of requests, or (`is_general`) never does."""

    def __init__(self, version: int, *, is_general: bool, **topic: Any) -> None:
        self.world = ReplicaWorld()
        self.world.create_topic(partitions=2, **topic)
        self.dispatcher = dispatcher_of(self.world)
        self.runs: list[int] = []  # the number of requests served at once, by run
        self.route = self.dispatcher.load_route(0, version)
        if is_general:
            self.dispatcher.routes[0, version] = self.route._replace(repeated=None)

    @property
    def heads(self) -> dict[bytes, Any]:
        assert self.route.repeated is not None
        return self.route.repeated.heads.known

    def send(self, frame: bytes) -> Any:
        """Return the bytes of the response, or the reason why the connection is closed."""
        try:
            answer = self.dispatcher.serve(PEER, memoryview(bytearray(frame)))
        except CloseConnection as refusal:
            return str(refusal)
        assert not isinstance(answer, Pending)
        return None if answer is None else b"".join(cast(Any, answer))

    def send_together(self, frames: list[bytes]) -> Any:
        """Return the responses to consecutive frames in a connection's buffer."""
        view = memoryview(bytearray(b"".join(struct.pack(">i", len(one)) + one for one in frames)))
        position, answers = 0, []
        while position < len(view):
            run = self.dispatcher.serve_run(PEER, view, position, len(view))
            if run is not None:
                self.runs.append(run.requests)
                position = run.stop
                assert not isinstance(run.answers, Pending)
                answers.append(b"".join(cast(Any, run.answers)))
                continue
            (size,) = struct.unpack_from(">i", view, position)
            answers.append(self.send(bytes(view[position + 4 : position + 4 + size])))
            position += 4 + size
            if not isinstance(answers[-1], bytes):
                break  # no response, or the connection is closed
        return answers

    def content(self) -> list[bytes]:
        """Return the contents of the logs of both partitions."""
        logs = [self.world.partition(index=index).log for index in (0, 1)]
        return [segment.file.read_at(0, segment.size_bytes) for log in logs for segment in log.segments[-1:]]


def batch(count: int = 1, *, timestamp: int = NOW_MS, **fields: Any) -> bytes:
    return build_batch([(None, b"v", timestamp, ()) for _ in range(count)], **fields)


def frame(
    version: int, records: bytes | None, *, correlation_id: int = 7, index: int = 0, **fields: Any
) -> bytes:
    data = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name="t", topic_id=b"t".ljust(16, b"."), partition_data=[data])
    request = ProduceRequest(**{"acks": 1, "timeout_ms": 1000, "topic_data": [topic], **fields})
    return b"".join(codec_of.encode_request(0, version, correlation_id, "test", request))[4:]


def both(version: int, frames: list[bytes], change: Callable[[ReplicaWorld], Any] | None = None) -> list[Any]:
    """Return the responses of both paths to the same frames; `change` is applied after the first frame."""
    quick, general = Node(version, is_general=False), Node(version, is_general=True)
    answers = []
    for number, one in enumerate(frames):
        answers.append(quick.send(one))
        assert answers[-1] == general.send(one), (version, number)
        if number == 0:
            assert len(quick.heads) == 1
            if change is not None:
                change(quick.world)
                change(general.world)
    return answers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_a_repeated_request_is_answered_as_the_first(version: int, acks: int) -> None:
    frames = [
        frame(version, batch(count), correlation_id=count, acks=acks, index=count % 2)
        for count in (1, 2, 300, 4)
    ]
    answers = both(version, [frame(version, batch(), acks=acks), *frames])

    assert len(set(answers)) == 5
    _, response = codec_of.decode_response(0, version, answers[3], 4)
    assert response.responses[0].partition_responses[0].base_offset == 3


def test_a_known_head_is_not_decoded_again() -> None:
    node = Node(9, is_general=False)
    node.send(frame(9, batch()))

    def never(*_: object) -> Any:
        raise AssertionError("decoded")

    node.dispatcher.routes[0, 9] = node.route._replace(decode=never)
    node.send(frame(9, batch()))

    assert node.world.partition().log.log_end_offset == 2


def test_a_known_head_waits_for_the_metadata_if_the_leader_has_just_gone_down() -> None:
    async def scenario() -> None:
        node = Node(9, is_general=False)
        node.send(frame(9, batch()))
        node.world.create_topic(partitions=2, leader=OTHER_ID, leader_epoch=3, replicas=(NODE_ID, OTHER_ID))
        node.world.metadata.suspects.suspect(OTHER_ID)

        answer = node.dispatcher.serve(PEER, memoryview(frame(9, batch())))

        assert isinstance(answer, Pending) and not answer.is_carried_out
        cast(Any, answer.awaitable).close()

    asyncio.run(scenario())


def with_attributes(records: bytes, bits: int) -> bytes:
    return records[:22] + bytes([records[22] | bits]) + records[23:]


@pytest.mark.parametrize("version", [3, 4, 7, 8, 9, 12, 13])
@pytest.mark.parametrize(
    "corrupt",
    [
        lambda version: frame(version, None),
        lambda version: frame(version, b""),
        lambda version: frame(version, batch()[:60]),
        lambda version: frame(version, batch()[:-1] + b"?"),
        lambda version: frame(version, batch() + batch()),
        lambda version: frame(version, batch() + batch()[:30]),
        lambda version: frame(version, with_attributes(batch(), TRANSACTIONAL_BIT)),
        lambda version: frame(version, batch(), transactional_id="x"),
        lambda version: frame(version, batch(), acks=2),
        lambda version: frame(version, batch(), acks=0),
        lambda version: frame(version, batch(), index=9),
        lambda version: frame(version, batch(), topic_data=[]),
        lambda version: frame(version, batch()) + b"trailing",
        lambda version: frame(version, batch())[:-1],
        lambda version: frame(version, batch())[:20],
        lambda version: frame(version, batch())[:9],
        lambda version: frame(version, batch())[:8] + struct.pack(">h", -1) + frame(version, batch())[14:],
        lambda version: frame(version, batch(timestamp=NOW_MS + 10**9)),
        lambda version: frame(version, batch(producer_id=5, producer_epoch=0, base_sequence=7)),
    ],
)
def test_any_bytes_may_follow_a_known_head(version: int, corrupt: Callable[[int], bytes]) -> None:
    known = frame(version, batch())

    both(version, [known, corrupt(version), known])


@pytest.mark.parametrize("version", [3, 8, 11, 13])
@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.delete_topic("t"),
        lambda world: world.create_topic(partitions=2, leader=OTHER_ID, replicas=(OTHER_ID,)),
        lambda world: world.create_topic(
            partitions=2, leader=OTHER_ID, leader_epoch=3, replicas=(NODE_ID, OTHER_ID)
        ),
        lambda world: (world.delete_topic("t"), world.create_topic(partitions=2, topic_id=b"u" * 16)),
        lambda world: world.clock.advance(5),
        lambda world: setattr(world, "is_cut_off", True),
    ],
)
def test_the_topic_may_have_changed_since(version: int, change: Callable[[ReplicaWorld], Any]) -> None:
    known = frame(version, batch())

    both(version, [known, known, known], change)


@pytest.mark.parametrize("version", [8, 9])
def test_a_topic_may_stamp_its_batches(version: int) -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    quick = Node(version, is_general=False, config=config)
    general = Node(version, is_general=True, config=config)

    for _ in range(3):
        assert quick.send(frame(version, batch())) == general.send(frame(version, batch()))
        quick.world.clock.advance(3)
        general.world.clock.advance(3)

    assert len(quick.heads) == 1


def test_a_large_batch_is_opened_off_the_loop_also_where_the_head_is_known() -> None:
    node = Node(9, is_general=False, config=LogConfig(compression_type="gzip"))
    node.send(frame(9, batch()))
    assert len(node.heads) == 1

    large = batch(MAX_RECOMPRESSED_AT_ONCE_BYTES)
    answer = node.dispatcher.serve(PEER, memoryview(bytearray(frame(9, large))))

    assert isinstance(answer, Pending)
    cast("Coroutine[Any, Any, Any]", answer.awaitable).close()


@pytest.mark.parametrize("codec", Compression)
def test_records_are_checked_also_where_the_head_is_known(codec: Compression) -> None:
    valid = build_batch([(b"k", b"v" * 900, NOW_MS + one, ()) for one in range(5)], compression=codec)
    header = read_header(valid)
    miscounted = seal_batch(header._replace(last_offset_delta=9, records_count=10), valid[HEADER_SIZE:])
    later = seal_batch(header._replace(max_timestamp=NOW_MS + 1_000), valid[HEADER_SIZE:])
    # Compressed garbage is rejected in a thread, which test_batch_validator shows.
    garbage = [seal_batch(header, b"\xee" * 60)] if codec is Compression.NONE else []
    opened = decompress(codec, bytes(valid[HEADER_SIZE:]))
    tail = seal_batch(header, compress(codec, bytes(opened) + b"\0"))

    answers = both(
        9, [frame(9, bytes(one)) for one in (valid, valid, miscounted, later, *garbage, tail, valid)]
    )

    found = [codec_of.decode_response(0, 9, answer, 4)[1] for answer in answers]
    partitions = [one.responses[0].partition_responses[0] for one in found]
    assert [one.error_code for one in partitions] == [0, 0, 87, 0, *(87 for _ in garbage), 87, 0]
    assert [one.base_offset for one in partitions] == [0, 5, -1, 10, *(-1 for _ in garbage), -1, 15]


def test_a_sound_batch_is_appended_at_once_where_the_head_is_known() -> None:
    """Compressed, too: it is opened as it is, and no response object is made."""
    runs = []
    for codec in (Compression.NONE, Compression.LZ4, Compression.ZSTD):
        node = Node(9, is_general=False)
        valid = bytes(build_batch([(b"k", b"v" * 100, NOW_MS, ())] * 5, compression=codec))
        node.send_together([frame(9, valid)] * 9)
        runs.append(node.runs)

    assert runs[0] and runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("version", [6, 7])
def test_zstd_needs_version_7_also_where_the_head_is_known(version: int) -> None:
    plain, zstd = batch(), bytes(build_batch([(b"k", b"v", NOW_MS, ())], compression=Compression.ZSTD))

    answers = both(version, [frame(version, one) for one in (plain, zstd, plain)])

    found = [codec_of.decode_response(0, version, answer, 4)[1] for answer in answers]
    codes = [one.responses[0].partition_responses[0].error_code for one in found]
    assert codes == [0, 76 if version == 6 else 0, 0]


@pytest.mark.parametrize("version", [8, 13])
def test_a_duplicate_is_recognized(version: int) -> None:
    first = frame(version, batch(2, producer_id=5, producer_epoch=0, base_sequence=0))
    second = frame(version, batch(2, producer_id=5, producer_epoch=0, base_sequence=2))

    answers = both(version, [first, second, first, second])

    found = [codec_of.decode_response(0, version, answer, 4)[1] for answer in answers]
    assert [one.responses[0].partition_responses[0].base_offset for one in found] == [0, 2, 0, 2]


def test_with_acks_all_the_followers_are_waited_for() -> None:
    node = Node(9, is_general=False)
    node.send(frame(9, batch(), acks=-1))
    node.world.create_topic(partitions=2, replicas=(NODE_ID, OTHER_ID))
    waiting: list[Any] = []
    node.world.replica_manager.delay_produce = (  # type: ignore[method-assign]
        lambda places, timeout_ms: waiting.append((places, timeout_ms))
    )

    answer = node.dispatcher.serve(PEER, memoryview(bytearray(frame(9, batch(), acks=-1))))

    assert isinstance(answer, Pending)
    assert waiting == [({node.world.partition(): RequiredOffset(2, 0)}, 1000)]


@pytest.mark.parametrize("version", [3, 4, 5, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(
    "code", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
def test_a_request_that_waits_is_answered_as_by_the_general_path(
    version: int, acks: int, code: ErrorCode
) -> None:
    answers, waited = [], []
    for is_general in (False, True):
        node = Node(version, is_general=is_general, config=LogConfig(flush_messages=100))
        for _ in range(2):
            node.send(frame(version, batch(40), acks=acks))
        if acks == -1:
            node.world.create_topic(partitions=2, replicas=(NODE_ID, OTHER_ID))
        node.world.replica_manager.delay_produce = (  # type: ignore[method-assign]
            lambda places, timeout_ms: waited.append((list(places.values()), timeout_ms))
        )

        # With acks=1 the response waits for a flush, which is due with this batch.
        request = frame(version, batch(30), acks=acks, correlation_id=77)
        answer = node.dispatcher.serve(PEER, memoryview(bytearray(request)))

        assert isinstance(answer, Pending) and answer.is_carried_out
        encoded = answer.encode({node.world.partition(): code})
        answers.append(b"".join(cast(Any, encoded)))
        assert bool(node.heads) is not is_general

    assert answers[0] == answers[1]
    assert waited[0] == waited[1] and len(waited) == 2


@pytest.mark.parametrize("version", [9, 13])
def test_a_request_that_is_written_in_an_unusual_way_is_not_remembered(version: int) -> None:
    usual = frame(version, batch())
    # The empty tag section of the header (after the client id) gets one tag of 40 bytes with a body in it.
    body = usual[15:]
    fake = (b"\0" + body)[:40]
    node = Node(version, is_general=False)

    answer = node.send(usual[:14] + bytes([1, 99, len(fake)]) + fake + body)

    assert isinstance(answer, bytes) and not node.heads


def test_internal_topics_and_requests_for_several_partitions_are_not_remembered() -> None:
    node = Node(8, is_general=False)
    node.world.create_topic("__consumer_offsets")
    two = [PartitionProduceData(index=index, records=batch()) for index in (0, 1)]
    internal = [TopicProduceData(name="__consumer_offsets", partition_data=two[:1])]

    node.send(frame(8, None, topic_data=[TopicProduceData(name="t", partition_data=two)]))
    node.send(frame(8, None, topic_data=internal).replace(b"\0\4test", b"\0\x0e__admin_client"))

    assert not node.heads
    assert node.world.partition("__consumer_offsets").log.log_end_offset == 1


def test_the_table_of_heads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_heads, "MAX_HEADS", 2)
    monkeypatch.setattr(produce_heads, "LEARN_EVERY_WHEN_FULL", 3)
    node = Node(8, is_general=False)
    remembered = []

    for timeout_ms in (1, 2, 3, 4, 5, 6):
        node.send(frame(8, batch(), timeout_ms=timeout_ms))
        remembered.append(sorted(head.request.timeout_ms for head in node.heads.values()))

    assert remembered == [[1], [1, 2], [1, 2], [1, 2], [2, 5], [2, 5]]
    assert node.world.partition().log.log_end_offset == 6


def test_a_client_id_that_is_too_long_is_not_remembered() -> None:
    node = Node(8, is_general=False)

    node.send(frame(8, batch()).replace(b"\0\4test", struct.pack(">h", 600) + b"x" * 600))

    assert not node.heads
    assert node.world.partition().log.log_end_offset == 1


def test_a_known_head_is_not_learned_again() -> None:
    node = Node(8, is_general=False)
    node.send(frame(8, batch()))
    (known,) = node.heads.values()

    node.send(frame(8, batch()) + b"trailing")

    assert [*node.heads.values()] == [known]


# ---- requests that are served at once ----------------------------------------------------------------------


def together(version: int, frames: list[bytes], **topic: Any) -> Node:
    """Return the node that got all frames at once, and answered like one that got them one by one."""
    quick, general = Node(version, is_general=False, **topic), Node(version, is_general=True, **topic)
    known = frame(version, batch())
    for _ in range(2):  # The first makes the head known, the second the room in the segment.
        assert quick.send(known) == general.send(known)
    one_by_one: list[Any] = []
    for one in frames:
        one_by_one.append(general.send(one))
        if not isinstance(one_by_one[-1], bytes):
            break

    at_once = quick.send_together(frames)

    assert [one for one in at_once if not isinstance(one, bytes)] == [
        one for one in one_by_one if not isinstance(one, bytes)
    ]
    assert b"".join(one for one in at_once if isinstance(one, bytes)) == b"".join(
        one for one in one_by_one if isinstance(one, bytes)
    )
    assert quick.content() == general.content()
    return quick


@pytest.mark.parametrize("version", VERSIONS)
def test_consecutive_requests_are_served_at_once(version: int) -> None:
    frames = [frame(version, batch(count), correlation_id=50 + count) for count in (1, 1, 2, 200, 200, 1, 3)]

    node = together(version, frames)

    assert node.runs == [len(frames)]


@pytest.mark.parametrize("version", [5, 9, 13])
def test_a_run_ends_at_a_batch_that_is_not_simply_appended(version: int) -> None:
    def idempotent(sequence: int) -> bytes:
        return frame(version, batch(producer_id=5, producer_epoch=0, base_sequence=sequence))

    plain = frame(version, batch())
    odd = {
        "damaged": frame(version, batch()[:-1] + b"?"),
        "transactional": frame(version, with_attributes(batch(), TRANSACTIONAL_BIT)),
        "late": frame(version, batch(timestamp=NOW_MS + 10**9)),
        "of another partition": frame(version, batch(), index=1),
        "with trailing bytes": plain + b"trailing",
        "a gap": idempotent(9),
        "a duplicate": idempotent(0),
        "two batches": frame(version, batch() + batch()),
        "unanswered": frame(version, batch(), acks=0),
    }
    begin = [plain, idempotent(0), idempotent(1), plain]
    for name, one in odd.items():
        node = together(version, [*begin, one, plain, plain])

        assert node.runs[0] == len(begin), name


@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_is_answered_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    version = chance.choice([3, 8, 9, 13])
    sequences = {5: 0, 6: 0}
    frames = []
    for number in range(60):
        producer_id = chance.choice([-1, -1, 5, 6])
        fields: dict[str, Any] = {}
        if producer_id >= 0:
            count = chance.randint(1, 3)
            fields = {"producer_id": producer_id, "producer_epoch": 0}
            fields["base_sequence"] = max(0, sequences[producer_id] - (chance.random() < 0.1))
            sequences[producer_id] = fields["base_sequence"] + count
        else:
            count = chance.choice([1, 1, 1, 50])
        records = batch(count, **fields)
        if chance.random() < 0.05:
            records = records[: chance.randrange(len(records))]
        index, acks = int(chance.random() < 0.1), chance.choice([1, 1, 1, -1])
        frames.append(frame(version, records, index=index, acks=acks, correlation_id=number))

    node = together(version, frames, config=LogConfig(segment_bytes=chance.choice([3_000, 10**9])))

    assert node.runs


def test_a_run_may_fill_a_segment_and_its_indexes() -> None:
    frames = [frame(9, batch(10)) for _ in range(30)]
    settings = [
        {"segment_bytes": 1000},
        {"segment_index_bytes": 64, "index_interval_bytes": 100},
        {"index_interval_bytes": 100},
        {"max_message_bytes": 50},
        {"cleanup_policy": "compact"},
        {"compression_type": "lz4"},
        {"message_timestamp_type": "LogAppendTime"},
        {"segment_ms": 1},
    ]
    for setting in settings:
        node = together(9, frames, config=LogConfig(**cast(Any, setting)))

        assert setting != {"index_interval_bytes": 100} or node.runs == [30]


def test_a_run_that_waits_for_replicas_is_answered_as_a_whole() -> None:
    node = Node(9, is_general=False)
    for _ in range(2):
        node.send(frame(9, batch(), acks=-1))
    node.world.create_topic(partitions=2, replicas=(NODE_ID, OTHER_ID))
    waiting: list[Any] = []
    node.world.replica_manager.delay_produce = (  # type: ignore[method-assign]
        lambda places, timeout_ms: waiting.append((places, timeout_ms))
    )
    frames = [frame(9, batch(), acks=-1, correlation_id=one) for one in (1, 2, 3)]
    view = memoryview(bytearray(b"".join(struct.pack(">i", len(one)) + one for one in frames)))
    partition = node.world.partition()
    leader_epoch = partition.leader_epoch

    run = node.dispatcher.serve_run(PEER, view, 0, len(view))

    assert run is not None and (run.stop, run.requests) == (len(view), 3)
    assert isinstance(run.answers, Pending)
    assert waiting == [({partition: RequiredOffset(5, leader_epoch)}, 1000)]
    for code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
        answers = b"".join(cast(Any, run.answers.encode({partition: code})))
        size = len(answers) // 3
        for number in range(3):
            one = answers[number * size : (number + 1) * size]
            _, response = codec_of.decode_response(0, 9, one, 4)
            partition_response = response.responses[0].partition_responses[0]
            assert struct.unpack_from(">ii", one) == (size - 4, number + 1)
            assert partition_response.error_code == code
            assert partition_response.base_offset == (-1 if code else number + 2)


def test_a_disk_that_fails_in_a_run_fails_all_of_it() -> None:
    node = Node(9, is_general=False)
    for _ in range(2):
        node.send(frame(9, batch()))
    disk = node.world.log_manager.disk
    disk.fail_at, disk.stays_broken = disk.steps + 1, True

    answers = node.send_together([frame(9, batch()) for _ in range(3)])

    assert not node.runs
    for one in answers:
        _, response = codec_of.decode_response(0, 9, one, 4)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


# ---- in a transaction --------------------------------------------------------------------------------------


class Transactional(Node):
    """A node whose coordinator accepts producer 5 at once."""

    def __init__(self, version: int, *, is_general: bool) -> None:
        super().__init__(version, is_general=is_general)
        self.verified = 0
        self.world.txn_gate = Gate(self._add_or_verify)
        self.decoded = 0  # requests that were decoded
        route = self.dispatcher.routes[0, version]
        self.dispatcher.routes[0, version] = route._replace(decode=self._counted(route.decode))

    def _add_or_verify(self, transactional_id: str, producer_id: int, *_: Any, adds: bool) -> Any:
        self.verified += 1
        yes = ErrorCode.NONE if producer_id == 5 else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        future: asyncio.Future[Any] = LOOP.create_future()
        future.set_result({("t", 0): yes, ("t", 1): yes})
        return future

    def _counted(self, decode: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.decoded += 1
            return decode(*arguments)

        return counted

    def send(self, frame: bytes) -> Any:
        try:
            answer: Any = self.dispatcher.serve(PEER, memoryview(bytearray(frame)))
            while isinstance(answer, Pending):
                answer = answer.encode(cast(Any, answer.awaitable).result())
        except CloseConnection as refusal:
            return str(refusal)
        return None if answer is None else b"".join(answer)

    def end_transaction(self, epoch: int, index: int) -> None:
        self.world.partition(index=index).append_marker(
            EndTransactionMarker(ControlType.COMMIT, 0),
            producer_id=5,
            producer_epoch=epoch,
            transaction_version=0,
            now_ms=NOW_MS,
        )


LOOP = asyncio.new_event_loop()


@pytest.mark.parametrize("version", VERSIONS)
def test_in_an_open_transaction_a_request_is_answered_as_the_first(version: int) -> None:
    quick, general = Transactional(version, is_general=False), Transactional(version, is_general=True)
    for index in (0, 1, 0, 1):
        plain = frame(version, batch(), index=index, acks=-1)
        assert quick.send(plain) == general.send(plain)

    for sequence in range(6):
        records = batch(producer_id=5, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        one = frame(version, records, transactional_id="my transactions", acks=-1, correlation_id=sequence)
        assert quick.send(one) == general.send(one)

    assert quick.content() == general.content()
    assert quick.verified == general.verified == 1
    assert len(quick.heads) == 3
    # The table answered one request for each of the two plain heads, and four for the transactional one,
    # which was learned from the second request of the transaction.
    assert general.decoded - quick.decoded == 2 + 4


def test_a_long_transactional_id_is_not_remembered() -> None:
    for size, is_known in ((126, True), (127, False), (300, False)):
        node = Transactional(9, is_general=False)
        node.send(frame(9, batch(), transactional_id="x" * size))

        assert bool(node.heads) == is_known
        assert node.world.partition().log.log_end_offset == 1


@pytest.mark.parametrize("seed", range(40))
def test_any_mixture_in_transactions_is_answered_as_by_the_general_path(seed: int) -> None:
    chance = random.Random(seed)
    version = chance.choice([3, 8, 9, 11, 12, 13])
    quick, general = Transactional(version, is_general=False), Transactional(version, is_general=True)
    epoch, sequences = 0, [0, 0]
    for number in range(80):
        index, kind = chance.choice([0, 0, 1]), chance.random()
        if kind < 0.08:
            if chance.random() < 0.5:
                epoch, sequences = epoch + 1, [0, 0]
            quick.end_transaction(epoch, index)
            general.end_transaction(epoch, index)
            continue
        fields: dict[str, Any] = {"producer_id": 5, "producer_epoch": epoch, "is_transactional": True}
        fields["base_sequence"] = sequences[index]
        transactional_id: str | None = "tx"
        if kind < 0.7:
            sequences[index] += 1
        elif kind < 0.75:
            fields["base_sequence"] = max(0, sequences[index] - chance.randint(1, 3))
        elif kind < 0.8:
            fields["producer_epoch"] = max(0, epoch - 1)
        elif kind < 0.84:
            fields["is_transactional"] = False
        elif kind < 0.88:
            fields["producer_id"] = 6
        elif kind < 0.92:
            transactional_id = None
        elif kind < 0.96:
            fields = {}
        else:
            transactional_id = "another"
        one = frame(
            version,
            batch(**fields),
            index=index,
            acks=chance.choice([1, -1]),
            transactional_id=transactional_id,
            correlation_id=number,
        )

        assert quick.send(one) == general.send(one), number

    assert quick.content() == general.content()
    assert quick.verified == general.verified
    assert quick.decoded < general.decoded


def test_a_frame_beyond_the_limit_ends_a_run() -> None:
    """It was added to the run after a small one; alone it closes the connection."""
    node = Node(9, is_general=False)
    small, large = frame(9, batch()), frame(9, batch(50))
    for _ in range(2):
        node.send(small)
    node.world.config = replace(node.world.config, socket_request_max_bytes=len(large) - 1)
    view = memoryview(bytearray(b"".join(struct.pack(">i", len(one)) + one for one in (small, small, large))))

    run = node.dispatcher.serve_run(PEER, view, 0, len(view))

    assert run is not None and run.requests == 2


@pytest.mark.parametrize("size", range(4, 8))
def test_a_frame_without_a_header_at_the_end_of_the_buffer_is_no_run(size: int) -> None:
    """Reading its header beyond the buffer was an error in the middle of the responses before it."""
    node = Node(9, is_general=False)
    assert node.dispatcher.serve_run(PEER, memoryview(bytes(size)), 0, size) is None


# ---- heads are shared by all clients, rights are not -------------------------------------------------------


def client_of(authorizer: Authorizer, principal: str) -> Any:
    return connection_of(replace(CONNECTION, access=authorizer.access(principal, "127.0.0.1")))


def write_acl(name: str, kind: ResourceType = ResourceType.TOPIC) -> AccessControlEntry:
    allowed = AclPermissionType.ALLOW
    return AccessControlEntry(kind, name, PatternType.LITERAL, "User:ann", "*", AclOperation.WRITE, allowed)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_an_unauthorized_client_with_the_bytes_of_an_authorized_one_is_rejected(version: int) -> None:
    authorizer = Authorizer(AuthorizerSettings())
    authorizer.update(AclSet().changed({bytes(16): write_acl("t")}))
    ann, mallory = client_of(authorizer, "User:ann"), client_of(authorizer, "User:mallory")
    node = Node(version, is_general=False)
    request = frame(version, batch())
    two = memoryview(bytearray((struct.pack(">i", len(request)) + request) * 2))

    def code_of(client: Any) -> int:
        answer = b"".join(cast(Any, node.dispatcher.serve(client, memoryview(bytearray(request)))))
        (topic,) = codec_of.decode_response(0, version, answer, 4)[1].responses
        return int(topic.partition_responses[0].error_code)

    assert code_of(ann) == code_of(ann) == 0 and len(node.heads) == 1
    assert node.dispatcher.serve_run(ann, two, 0, len(two)) is not None
    end = node.world.partition().log.log_end_offset

    assert code_of(mallory) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert node.dispatcher.serve_run(mallory, two, 0, len(two)) is None
    authorizer.update(AclSet())
    assert code_of(ann) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert node.dispatcher.serve_run(ann, two, 0, len(two)) is None
    assert node.world.partition().log.log_end_offset == end == 4


def test_a_known_head_with_a_transactional_id_needs_both_rights() -> None:
    authorizer = Authorizer(AuthorizerSettings())
    authorizer.update(AclSet().changed({bytes(16): write_acl("t")}))
    ann = authorizer.access("User:ann", "127.0.0.1")
    node = Node(9, is_general=False)
    node.dispatcher.serve(PEER, memoryview(frame(9, batch(), transactional_id="x")))
    (known,) = node.heads.values()

    assert ann.allows(AclOperation.WRITE, ResourceType.TOPIC, "t") and not known.is_allowed(ann)

    of_transaction = write_acl("x", ResourceType.TRANSACTIONAL_ID)
    authorizer.update(AclSet().changed({bytes(16): write_acl("t"), bytes([1]) * 16: of_transaction}))
    assert not known.is_allowed(ann), "no rights are known since the ACLs changed"
    assert ann.allows(AclOperation.WRITE, ResourceType.TOPIC, "t")
    assert ann.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x") and known.is_allowed(ann)
