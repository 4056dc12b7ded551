"""Consumers read some records of batches that decompress into very many, with bounded memory."""

import asyncio
import threading
import time
import tracemalloc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
import zstandard

from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import NewRecord, append_record, build_batch, seal_batch
from ottla.logstore.record_batch import BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import consumer as consumer_module
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import Consumer, FetchLimits
from ottla.node.client.record_cursor import RecordCursor
from ottla.node.wire.messages.fetch import PartitionData
from ottla.node.work.fair_pool import FairPool

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
MIB = 1024 * 1024
COUNT = 3_000_000


def bomb(record: bytes = bytes.fromhex("0c000000010100"), number: int = COUNT) -> bytes:
    header = BatchHeader(0, 0, 0, 2, 0, Compression.ZSTD, number - 1, 0, 0, -1, -1, -1, number)
    return bytes(seal_batch(header, compress(Compression.ZSTD, record * number)))


def batch(base_offset: int, count: int, **more: Any) -> bytes:
    records: list[NewRecord] = [(b"k", b"%d" % (base_offset + index), 0, ()) for index in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, **more))


class Logs:
    """A cluster of one node that returns a whole log, from the batch with the offset on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, logs: Mapping[TopicPartition, bytes]) -> None:
        self.logs = logs
        self.opening: Any = None
        self.fetches: list[tuple[dict[TopicPartition, int], int]] = []
        monkeypatch.setattr(consumer_module, "find_leaders", self._find_leaders)
        monkeypatch.setattr(consumer_module, "fetch_once", self._fetch_once)

    async def _find_leaders(self, client: Any, partitions: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    async def _fetch_once(
        self, client: Any, leader: int, positions: Mapping[TopicPartition, int], *, wait_ms: int, **more: Any
    ) -> dict[TopicPartition, PartitionData]:
        self.fetches.append((dict(positions), wait_ms))
        return {
            one: PartitionData(partition_index=one.partition, records=self.logs[one]) for one in positions
        }

    def consumer(self, **limits: int) -> Consumer:
        client = Client([("h", 1)], timeout_s=600.0)
        client.opening = self.opening
        return Consumer(client, read_committed=False, limits=FetchLimits(**limits))


def test_a_page_of_a_decompression_bomb_costs_no_more_than_another_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Logs(monkeypatch, {A: bomb()}).consumer(max_records=100)
    consumer.positions = {A: 0}
    tracemalloc.start()
    began_s = time.process_time()

    ((_, records),) = asyncio.run(consumer.fetch())

    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(records) == 100
    assert time.process_time() - began_s < 1.0
    assert peak_bytes < 4 * MIB


def test_records_of_many_mib_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    value = b"\0" * MIB
    records: list[NewRecord] = [(None, value, 0, ())] * 60
    whole = bytes(build_batch(records, compression=Compression.ZSTD))
    consumer = Logs(monkeypatch, {A: whole}).consumer(max_record_bytes=4 * MIB)
    consumer.positions = {A: 0}

    sizes = []
    while consumer.positions[A] < 60:
        ((_, taken),) = asyncio.run(consumer.fetch())
        sizes.append(len(taken))

    assert sizes == [4] * 15


def test_a_round_is_bounded_over_all_partitions_together(monkeypatch: pytest.MonkeyPatch) -> None:
    large = bytes(build_batch([(None, b"\0" * (3 * MIB), 0, ())], compression=Compression.ZSTD))
    partitions = [TopicPartition("t", number) for number in range(10)]
    consumer = Logs(monkeypatch, dict.fromkeys(partitions, large)).consumer(max_record_bytes=4 * MIB)
    consumer.positions = dict.fromkeys(partitions, 0)

    rounds = []
    while sum(map(len, rounds)) < len(partitions):
        rounds.append([one for one, _ in asyncio.run(consumer.fetch())])

    assert [len(those) for those in rounds] == [2] * 5
    assert {one for those in rounds for one in those} == set(partitions)


def test_the_rest_of_a_batch_is_returned_by_the_next_rounds_without_another_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = Logs(monkeypatch, {A: batch(0, 250) + batch(250, 50), B: batch(7, 1)})
    consumer = logs.consumer(max_records=100)
    consumer.positions = {A: 5, B: 7}

    found: dict[TopicPartition, list[int]] = {A: [], B: []}
    for _ in range(3):
        for one, records in asyncio.run(consumer.fetch()):
            found[one] += [record.offset for record in records]

    assert found == {A: list(range(5, 300)), B: [7]}
    assert [sorted(positions) for positions, _ in logs.fetches] == [[A, B], [B], [B]]
    assert logs.fetches[1][1] == 0  # the fetch does not wait while records are left


def test_a_caller_that_seeks_gets_the_records_there(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Logs(monkeypatch, {A: batch(0, 300)}).consumer(max_records=100)
    consumer.positions = {A: 0}
    asyncio.run(consumer.fetch())

    consumer.positions = {A: 290}
    ((_, records),) = asyncio.run(consumer.fetch())

    assert [record.offset for record in records] == list(range(290, 300))


def test_records_before_a_damaged_batch_are_returned_and_then_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = bytearray(batch(3, 2))
    broken[-1] ^= 1
    consumer = Logs(monkeypatch, {A: batch(0, 3) + bytes(broken)}).consumer()
    consumer.positions = {A: 0}

    ((_, records),) = asyncio.run(consumer.fetch())
    assert [record.offset for record in records] == [0, 1, 2]
    assert consumer.positions == {A: 3}
    monkeypatch.setattr(consumer_module, "RETRY_PAUSE_S", 0)
    assert asyncio.run(consumer.fetch()) == []
    assert consumer.problems[A].code is ErrorCode.CORRUPT_MESSAGE


def test_skipping_to_an_offset_is_split_into_turns() -> None:
    cursor = RecordCursor(memoryview(bomb()), (), COUNT - 1)

    found = list(cursor)

    assert found.count(None) == len(found) > 50
    assert cursor.position == COUNT


def test_an_unused_cursor_is_freed_at_once() -> None:
    class Received(bytearray):
        """Bytes that support weak references."""

    received = Received(batch(0, 5))
    gone = weakref.ref(received)
    cursor = RecordCursor(memoryview(received), (), 0)
    next(cursor)
    del received
    assert gone() is not None

    del cursor

    assert gone() is None


def test_consumers_keep_no_more_of_a_batch_than_its_usual_window() -> None:
    record = bytearray()
    append_record(record, timestamp_delta=0, offset_delta=0, key=None, value=bytes(MIB))
    large = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=large).compressobj()
    content = stream.compress(bytes(record) * 30) + stream.flush()
    header = BatchHeader(0, 0, 0, 2, 0, Compression.ZSTD, 29, 0, 0, -1, -1, -1, 30)
    cursor = RecordCursor(memoryview(seal_batch(header, content)), (), 0, 8 * MIB)
    usual = bytes(seal_batch(header, compress(Compression.ZSTD, bytes(record) * 30)))

    with pytest.raises(KafkaError) as refusal:
        list(cursor)

    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len([one for one in RecordCursor(memoryview(usual), (), 0, 8 * MIB) if one is not None]) == 30


def test_records_are_opened_where_the_client_says(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch, {A: batch(0, 2_000), B: b""})
    threads: list[int] = []

    async def open_in_thread(work: Any) -> bool:
        return bool(await asyncio.to_thread(work, lambda: threads.append(threading.get_ident())))

    logs.opening = open_in_thread
    consumer = logs.consumer(max_records=1_200)
    consumer.positions = {A: 0, B: 0}

    ((_, first),) = asyncio.run(consumer.fetch())
    ((_, rest),) = asyncio.run(consumer.fetch())

    assert [one.offset for one in (*first, *rest)] == list(range(2_000)) and len(first) == 1_200
    assert threads and threading.get_ident() not in threads, "it pauses, in another thread"


def test_opening_in_a_pool_ends_with_its_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(monkeypatch, {A: bomb(number=15_000_000)})
    pauses: list[float] = []

    async def run() -> None:
        pool = FairPool("records", threads=1, max_cpu_s=60.0)
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def submit(work: Any) -> Any:
            def watched(pause: Any) -> bool:
                def paused() -> None:
                    pauses.append(time.thread_time())
                    loop.call_soon_threadsafe(began.set)
                    pause()

                return bool(work(paused))

            return pool.submit_for("192.0.2.1", 1, watched)

        logs.opening = submit
        consumer = logs.consumer(max_records=100_000_000, max_record_bytes=1 << 40)
        consumer.positions = {A: 0}
        reading = asyncio.ensure_future(consumer.fetch())
        await began.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

        await pool.submit_for("192.0.2.2", 2, lambda pause: None)  # the only thread is free again

        pool.close()

    asyncio.run(run())

    assert len(pauses) < 1_000, "it did not open them all: there would be 30,000 pauses"
