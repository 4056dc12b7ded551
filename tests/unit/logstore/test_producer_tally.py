"""The count of producers in all logs; new ones are rejected when there is no memory for them."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_state import ENTRIES_AT_ONCE, ProducerState
from ottla.logstore.producer_tally import PRODUCER_BYTES, ProducerTally, SilentProducers
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.record_batch import TRANSACTIONAL_BIT, BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.unit.logstore import log_maker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MARKER = EndTransactionMarker(ControlType.COMMIT, 0)


def header(producer_id: int, sequence: int = 0, bits: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, bits, 0, 1000, 1000, producer_id, 0, sequence, 1)


def with_producers(count: int, tally: ProducerTally, *, bits: int = 0) -> ProducerState:
    state = ProducerState()
    state.count_in(tally)
    for producer_id in range(count):
        state.add_batch(header(producer_id, bits=bits), now_ms=producer_id, base_offset=producer_id)
    return state


def test_producers_are_counted_until_they_expire() -> None:
    tally = ProducerTally()
    one, other = with_producers(10, tally), with_producers(5, tally)
    one.add_batch(header(3, sequence=1), now_ms=0)
    other.add_marker(MARKER, producer_id=77, producer_epoch=0, offset=9, timestamp=1, now_ms=1)
    assert tally.count == 16

    assert sum(one.remove_expired(10, 5)) == 6
    assert tally.count == 10
    one.load(list(other.entries.values()), 9)
    assert tally.count == 12
    other.clear(0)
    assert (tally.count, tally.used_bytes) == (6, 6 * PRODUCER_BYTES)
    one.count_in(ProducerTally())
    assert tally.count == 0


def test_a_new_producer_is_rejected_when_all_memory_is_used_and_others_continue() -> None:
    tally = ProducerTally(limit_bytes=10 * PRODUCER_BYTES)
    state = with_producers(10, tally)

    with pytest.raises(KafkaError) as refused:
        state.check_batch(header(10), is_client=True)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    state.check_batch(header(9, sequence=1), is_client=True)
    state.check_batch(header(10), is_client=False)  # a batch of a coordinator

    sum(state.remove_expired(100, 100))
    state.check_batch(header(10), is_client=True)


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    tally = ProducerTally()
    state = with_producers(2 * ENTRIES_AT_ONCE + 10, tally)
    state.add_batch(header(5, sequence=1, bits=TRANSACTIONAL_BIT), now_ms=5, base_offset=10**6)
    state.map_end_offset = 10**6 + 1

    steps = list(state.silent_since(1_000))
    forgotten = list(state.forget_silent(1_000))

    assert [len(one) for one in steps] == forgotten == [999, 0, 0]
    assert 5 in state.entries and 6 not in state.entries and 1_000 in state.entries
    assert tally.count == len(state.entries) == 2 * ENTRIES_AT_ONCE + 10 - 999
    state.check_invariants()


def test_a_producer_that_writes_again_during_expiry_is_kept() -> None:
    state = with_producers(2 * ENTRIES_AT_ONCE, ProducerTally())
    late = 2 * ENTRIES_AT_ONCE - 1

    steps = state.forget_silent(10**6)
    next(steps)
    state.add_batch(header(late, sequence=1), now_ms=10**6)

    assert sum(steps) == ENTRIES_AT_ONCE - 1
    assert list(state.entries) == [late]


def test_the_producers_silent_for_longest_expire_first() -> None:
    silent = SilentProducers()
    silent.add([1_500, 1_600, 4_000])
    silent.add([2_500, 9_999])

    assert [silent.seen_before_ms(count) for count in (1, 2, 3, 4, 5, 99)] == [
        2_000,
        2_000,
        3_000,
        5_000,
        10_000,
        10_000,
    ]
    assert SilentProducers().seen_before_ms(3) == 0


def test_there_is_a_surplus_from_seven_eighths_of_the_limit_on() -> None:
    tally = ProducerTally(limit_bytes=800 * PRODUCER_BYTES, count=700)
    assert tally.surplus == 0

    tally.count = 701

    assert tally.surplus == 101 and not tally.is_full


def write(log: PartitionLog, producers: range) -> None:
    for producer_id in producers:
        log_maker.send(log, producer_id, 0)


def test_logs_count_their_producers_until_they_are_deleted() -> None:
    disk = MemoryDisk()
    ids = iter(range(1, 1_000))

    def opened() -> LogManager:
        manager = LogManager(
            log_dirs=(Path("/a"), Path("/b")),
            disk=disk,
            now_ms=lambda: 0,
            unique=lambda: next(ids).to_bytes(16, "big"),
            lock=None,
        )
        manager.acquire()
        manager.claim(cluster_id=bytes(16), node_id=1)
        manager.load(lambda _topic: LogConfig())
        return manager

    manager = opened()
    logs = [manager.get_or_create(name, b"t" * 16, LogConfig()) for name in (T0, T1)]
    write(logs[0], range(4))
    write(logs[1], range(3))
    assert manager.producer_tally.count == 7
    assert opened().producer_tally.count == 7, "recovery replays them"

    manager.delete(T0)
    assert manager.producer_tally.count == 3
    manager.take_offline(next(one for one in manager.dirs if one.path == logs[1].directory.parent), "gone")
    assert manager.producer_tally.count == 0
