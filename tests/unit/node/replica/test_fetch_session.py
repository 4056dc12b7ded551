"""Incremental fetch sessions (KIP-227): epochs, changes that are sent, and evictions."""

import itertools

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica import fetch_session
from ottla.node.replica.fetch_session import PARTITION_BYTES, FetchItem, FetchSession, FetchSessionCache
from ottla.node.wire.messages.fetch import EpochEndOffset, FetchPartition, ForgottenTopic, PartitionData

HOUR_MS = 3_600_000


def cache(slots: int = 3) -> FetchSessionCache:
    ids = itertools.count(1)
    return FetchSessionCache(max_slots=slots, eviction_ms=120_000, random_id=lambda: next(ids))


def items(*partitions: int, topic: str | bytes = "t", offset: int = 0) -> list[FetchItem]:
    return [
        FetchItem(topic, FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000))
        for index in partitions
    ]


def create(sessions: FetchSessionCache, size: int = 1, *, now_ms: int = 0, privileged: bool = False) -> int:
    created = sessions.create(
        items(*range(size)), uses_topic_ids=False, is_privileged=privileged, now_ms=now_ms
    )
    return 0 if created is None else created.session_id


def resume(sessions: FetchSessionCache, session_id: int, epoch: int) -> FetchSession:
    return sessions.resume(session_id, epoch, uses_topic_ids=False)


def test_epochs_count_up_from_one() -> None:
    sessions = cache()
    session_id = create(sessions)

    for epoch in (1, 2, 3):
        sessions.advance(resume(sessions, session_id, epoch), now_ms=epoch)

    with pytest.raises(KafkaError) as refused:
        resume(sessions, session_id, 3)
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_after_the_last_is_one() -> None:
    sessions = cache()
    session = resume(sessions, create(sessions), 1)
    session.epoch = 2**31 - 1

    sessions.advance(session, now_ms=0)

    assert session.epoch == 1


def test_an_unknown_session_is_not_found() -> None:
    with pytest.raises(KafkaError) as refused:
        resume(cache(), 7, 1)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_names_is_not_resumed_with_ids() -> None:
    sessions = cache()
    session_id = create(sessions)

    with pytest.raises(KafkaError) as refused:
        sessions.resume(session_id, 1, uses_topic_ids=True)
    assert refused.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_changes_and_forgotten_partitions_are_taken_over() -> None:
    sessions = cache()
    session = resume(sessions, create(sessions, 3), 1)

    session.update(items(1, 7, offset=50), [ForgottenTopic(topic="t", partitions=[0, 99])])

    assert [key for _, key in session.partitions] == [1, 2, 7]
    assert session.partitions["t", 1].item.wanted.fetch_offset == 50


def test_a_session_without_partitions_ends() -> None:
    sessions = cache()
    session = resume(sessions, create(sessions, 1), 1)
    session.update([], [ForgottenTopic(topic="t", partitions=[0])])

    sessions.advance(session, now_ms=0)

    assert len(sessions) == 0


def test_only_changes_are_sent() -> None:
    session = resume(sessions := cache(), create(sessions), 1)
    cached = session.partitions["t", 0]
    unchanged = PartitionData(partition_index=0, high_watermark=10, log_start_offset=0)

    assert cached.must_send(unchanged, 0), "the first time"
    assert not cached.must_send(unchanged, 0)
    assert cached.must_send(unchanged, 100), "there are records"
    assert cached.must_send(PartitionData(high_watermark=11, log_start_offset=0), 0)
    assert cached.must_send(PartitionData(high_watermark=11, log_start_offset=5), 0)
    assert not cached.must_send(PartitionData(high_watermark=11, log_start_offset=5), 0)


@pytest.mark.parametrize(
    "changed",
    [
        PartitionData(error_code=6, high_watermark=10, log_start_offset=0),
        PartitionData(
            high_watermark=10, log_start_offset=0, diverging_epoch=EpochEndOffset(epoch=1, end_offset=5)
        ),
    ],
)
def test_errors_and_recoveries_are_always_sent(changed: PartitionData) -> None:
    cached = resume(sessions := cache(), create(sessions), 1).partitions["t", 0]
    unchanged = PartitionData(high_watermark=10, log_start_offset=0)
    cached.must_send(unchanged, 0)

    assert [cached.must_send(changed, 0) for _ in range(2)] == [True, True]
    assert cached.must_send(unchanged, 0)
    assert not cached.must_send(unchanged, 0)


def test_a_full_cache_gives_no_session_to_a_new_fetcher() -> None:
    sessions = cache(slots=2)
    create(sessions, 10)
    create(sessions, 10)

    assert create(sessions, 100) == 0
    assert len(sessions) == 2


def test_a_stale_session_is_evicted() -> None:
    sessions = cache(slots=1)
    old = create(sessions, 1000)

    new = create(sessions, 1, now_ms=120_001)

    assert new != 0
    with pytest.raises(KafkaError):
        resume(sessions, old, 1)


def test_an_established_session_is_evicted_only_for_a_larger_one() -> None:
    sessions = cache(slots=1)
    session_id = create(sessions, 10)
    sessions.advance(resume(sessions, session_id, 1), now_ms=HOUR_MS)

    assert create(sessions, 9, now_ms=HOUR_MS) == 0
    assert create(sessions, 11, now_ms=HOUR_MS) != 0


def test_a_follower_takes_the_slot_of_a_consumer_but_not_the_reverse() -> None:
    sessions = cache(slots=1)
    create(sessions, 1000)

    follower = create(sessions, 1, privileged=True)

    assert follower != 0
    sessions.advance(resume(sessions, follower, 1), now_ms=HOUR_MS)
    assert create(sessions, 1000, now_ms=HOUR_MS) == 0


def test_a_partition_that_was_read_goes_to_the_end() -> None:
    session = resume(sessions := cache(), create(sessions, 3), 1)

    session.move_to_end(("t", 0))

    assert [index for _, index in session.partitions] == [1, 2, 0]


class SmallCache:
    """A cache with memory for eight partitions in two sessions, and connections that can end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch_session, "SESSION_BYTES", 0)
        monkeypatch.setattr(fetch_session, "FEW_PARTITIONS", 1)
        self.ended: set[int] = set()
        self.others_bytes = 0
        ids = itertools.count(1)
        self.sessions = FetchSessionCache(
            max_slots=100,
            eviction_ms=120_000,
            random_id=lambda: next(ids),
            limit_bytes=8 * PARTITION_BYTES,
            is_open=lambda number: number not in self.ended,
            others_bytes=lambda: self.others_bytes,
        )

    def create(self, size: int, *, connection: int = 0, now_ms: int = 0) -> FetchSession | None:
        return self.sessions.create(
            items(*range(size)),
            uses_topic_ids=False,
            is_privileged=False,
            now_ms=now_ms,
            connection_number=connection,
        )

    def used(self) -> int:
        return self.sessions.used_bytes // PARTITION_BYTES


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> SmallCache:
    return SmallCache(monkeypatch)


def test_no_session_has_more_than_a_quarter_of_the_memory(small: SmallCache) -> None:
    assert small.create(3) is None
    assert small.create(2) is not None


def test_large_sessions_leave_a_quarter_of_the_memory_to_small_ones(small: SmallCache) -> None:
    assert [small.create(2) is not None for _ in range(4)] == [True, True, True, False]
    assert [small.create(1) is not None for _ in range(3)] == [True, True, False]
    assert small.used() == 8


def test_fetch_sessions_of_followers_use_the_same_memory(small: SmallCache) -> None:
    small.others_bytes = 8 * PARTITION_BYTES

    assert small.create(1) is None


def test_memory_of_a_client_that_has_gone_is_given_to_others_when_they_need_it(small: SmallCache) -> None:
    kept, gone, _ = (small.create(2, connection=number) for number in (1, 2, 3))
    assert kept is not None and gone is not None
    small.ended.add(2)
    assert len(small.sessions) == 3, "no other client needs the memory yet"

    assert small.create(2, connection=4) is not None

    with pytest.raises(KafkaError):
        resume(small.sessions, gone.session_id, 1)
    assert resume(small.sessions, kept.session_id, 1) is kept
    assert small.create(2) is None, "the others are there and use theirs"
    assert small.sessions.evictions == 1


def test_the_memory_of_an_unused_session_is_given_to_others(small: SmallCache) -> None:
    first, second, third = (small.create(2) for _ in range(3))
    assert first and second and third
    small.sessions.advance(second, 100_000)
    small.sessions.advance(third, 100_000)

    assert small.create(2, now_ms=120_001) is not None
    assert small.create(2, now_ms=120_001) is None
    with pytest.raises(KafkaError):
        resume(small.sessions, first.session_id, 1)


def test_a_session_that_grows_beyond_the_memory_ends(small: SmallCache) -> None:
    session = small.create(1)
    assert session is not None
    small.sessions.update(session, items(1), (), 0)

    with pytest.raises(KafkaError) as refused:
        small.sessions.update(session, items(2), (), 0)

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert small.used() == len(small.sessions) == 0


def test_the_counted_memory_is_that_of_the_sessions(small: SmallCache) -> None:
    session = small.create(2)
    assert session is not None
    small.sessions.update(session, items(1), [ForgottenTopic(topic="t", partitions=[0, 7])], 0)
    assert small.used() == 1
    session.move_to_end(("t", 1))

    small.sessions.remove(session.session_id)
    small.sessions.remove(session.session_id)

    assert small.used() == 0


def test_a_slot_of_a_client_that_has_gone_is_free() -> None:
    sessions = FetchSessionCache(
        max_slots=1,
        eviction_ms=120_000,
        random_id=itertools.count(1).__next__,
        is_open=lambda number: number != 1,
    )
    first = sessions.create(
        items(0, 1), uses_topic_ids=False, is_privileged=False, now_ms=0, connection_number=1
    )

    second = sessions.create(items(0), uses_topic_ids=False, is_privileged=False, now_ms=0)

    assert first is not None and second is not None and len(sessions) == 1
