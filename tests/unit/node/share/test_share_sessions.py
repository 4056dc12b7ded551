"""Share sessions: their epochs, their limits, and the connections that they end with."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share.share_sessions import (
    MAX_EPOCH,
    PARTITION_BYTES,
    SESSION_BYTES,
    SessionKey,
    ShareSession,
    ShareSessions,
    TopicIdPartition,
    next_epoch,
)

MEMBER, OTHER = SessionKey("workers", "m1"), SessionKey("workers", "m2")
T0, T1 = (TopicIdPartition(b"t" * 16, index) for index in range(2))


def sessions_of(*, most: int = 10, limit_bytes: int = 1 << 20) -> ShareSessions:
    return ShareSessions(max_sessions=lambda: most, limit_bytes=limit_bytes)


def begin(sessions: ShareSessions, key: SessionKey = MEMBER, *places: TopicIdPartition) -> ShareSession:
    session = sessions.create(key, [(place, "t") for place in places], connection=1)
    sessions.check_invariants()
    return session


def test_each_request_has_the_next_epoch() -> None:
    sessions = sessions_of()
    session = begin(sessions, MEMBER, T0)

    assert session.epoch == 1
    assert sessions.update(MEMBER, 1, [(T1, "t")], []).epoch == 2
    assert sessions.advance(MEMBER, 2).epoch == 3
    assert list(session.partitions) == [T0, T1]
    sessions.check_invariants()


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (MAX_EPOCH, 1), (-1, -1)])
def test_the_epoch_after_the_largest_is_one(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


@pytest.mark.parametrize("epoch", [0, 2, -2, MAX_EPOCH])
def test_a_request_of_another_epoch_is_rejected_and_changes_nothing(epoch: int) -> None:
    sessions = sessions_of()
    session = begin(sessions, MEMBER, T0)

    with pytest.raises(KafkaError) as refused:
        sessions.update(MEMBER, epoch, [(T1, "t")], [T0])

    assert refused.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (list(session.partitions), session.epoch) == ([T0], 1)


def test_an_acknowledgement_begins_no_session() -> None:
    sessions = sessions_of()
    begin(sessions)

    with pytest.raises(KafkaError) as refused:
        sessions.advance(MEMBER, 0)

    assert refused.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


@pytest.mark.parametrize("epoch", [-1, 1])
def test_a_member_without_a_session_gets_an_error(epoch: int) -> None:
    with pytest.raises(KafkaError) as refused:
        sessions_of().check(MEMBER, epoch)

    assert refused.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_final_epoch_fits_any_session() -> None:
    sessions = sessions_of()
    session = begin(sessions)

    assert sessions.advance(MEMBER, -1) is session
    assert session.epoch == 1


def test_the_number_of_sessions_is_limited() -> None:
    sessions = sessions_of(most=1)
    begin(sessions, MEMBER)

    with pytest.raises(KafkaError) as refused:
        begin(sessions, OTHER)
    sessions.remove(MEMBER)

    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    begin(sessions, OTHER)


def test_the_memory_of_sessions_is_limited() -> None:
    sessions = sessions_of(limit_bytes=SESSION_BYTES + PARTITION_BYTES)
    session = begin(sessions, MEMBER, T0)

    for grow in (lambda: begin(sessions, OTHER), lambda: sessions.update(MEMBER, 1, [(T1, "t")], [])):
        with pytest.raises(KafkaError) as refused:
            grow()
        assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED

    assert (list(session.partitions), session.epoch) == ([T0], 1)
    assert sessions.used_bytes == SESSION_BYTES + PARTITION_BYTES


def test_a_partition_both_added_and_forgotten_is_forgotten() -> None:
    sessions = sessions_of()
    session = begin(sessions, MEMBER, T0)

    sessions.update(MEMBER, 1, [(T1, "t")], [T1, T0])

    assert not session.partitions
    assert sessions.partition_count == 0


def test_sessions_are_found_by_their_connection_and_their_group() -> None:
    sessions = sessions_of()
    sessions.create(MEMBER, [], connection=7)
    sessions.create(OTHER, [], connection=8)

    assert [one.key for one in sessions.of_connection(7)] == [MEMBER]
    sessions.remove(MEMBER)
    assert sessions.of_connection(7) == []
    assert sessions.has_group("workers")
    sessions.remove(OTHER)
    assert not sessions.has_group("workers")
    sessions.check_invariants()


def test_a_response_has_a_new_partition_once_and_one_that_failed_again() -> None:
    sessions = sessions_of()
    session = begin(sessions, MEMBER, T0)
    sessions.update(MEMBER, 1, [(T1, "t")], [])

    def is_sent(place: TopicIdPartition, *, is_failed: bool = False) -> bool:
        return session.note_sent(place, is_failed=is_failed, has_records=False)

    assert not is_sent(T0)
    assert is_sent(T1) and not is_sent(T1)
    assert is_sent(T0, is_failed=True)
    assert is_sent(T0) and not is_sent(T0)


def test_a_partition_that_had_records_is_the_last_in_the_next_fetch() -> None:
    session = begin(sessions_of(), MEMBER, T0, T1)

    assert session.note_sent(T0, is_failed=False, has_records=True)

    assert list(session.partitions) == [T1, T0]
