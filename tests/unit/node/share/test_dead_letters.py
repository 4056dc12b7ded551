"""Records that are set aside for dead letters, and the note by which these are produced exactly once."""

import pytest

from ottla.groupcoord.share_state.share_state_config import MAX_DEAD_LETTERS_BYTES
from ottla.groupcoord.share_state.share_state_words import StateBatch, StateRead
from ottla.logstore.words.errors import KafkaError
from ottla.node.share.dead_letters import MAX_RANGES, DeadLetters, Note, encode_note, read_note
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason, ShareConfig, ShareLimits
from tests.unit.node.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    GAP,
    KEY,
    LOCK_MS,
    REJECT,
    RELEASE,
    Partition,
)

ARCHIVING, SPENT = 3, 6
SETS_ASIDE = ShareConfig(sets_aside=True, delivery_count_limit=2)


def letters_of(*records: ArchivedRecords, epoch: int = 4) -> DeadLetters:
    return DeadLetters(
        producer_id=77, producer_epoch=epoch, topic_id=bytes(range(16)), partition=3, records=records
    )


def rejected(first: int, last: int, count: int = 1) -> ArchivedRecords:
    return ArchivedRecords(first, last, count, ArchiveReason.REJECTED)


def spent(first: int, last: int, count: int = 2) -> ArchivedRecords:
    return ArchivedRecords(first, last, count, ArchiveReason.DELIVERY_LIMIT)


# ---- the note ----------------------------------------------------------------------------------------------


def test_a_note_is_read_as_it_was_written_and_fits_in_the_state() -> None:
    most = [rejected(offset, offset + 1, 32_767) for offset in range(0, 3 * MAX_RANGES, 3)]
    for letters in (letters_of(rejected(5, 5), spent(2**60, 2**61)), letters_of(*most)):
        note = encode_note(Note(7, letters))

        assert read_note(note) == Note(7, letters)
        assert len(note) <= MAX_DEAD_LETTERS_BYTES
    assert read_note(encode_note(Note(2**62, None))) == Note(2**62, None)
    assert read_note(b"") == Note(0, None)


def test_a_note_that_is_not_valid_is_rejected() -> None:
    note = encode_note(Note(1, letters_of(rejected(5, 6), spent(8, 9))))
    for length in range(1, len(note)):
        if length != 8:  # the number alone is a valid note
            with pytest.raises(ValueError, match="dead letters"):
                read_note(note[:length])
    backwards = encode_note(Note(1, letters_of(rejected(5, 6), spent(6, 9))))
    unknown = note[:8] + b"\x01" + note[9:]
    for wrong in (unknown, b"\xff" + note[1:], note + b"\x00", backwards, note[:-1] + b"\x02"):
        with pytest.raises(ValueError, match="dead letters"):
            read_note(wrong)


def test_a_share_partition_with_an_invalid_note_does_not_begin() -> None:
    core = SharePartition(KEY, 7, SETS_ASIDE, ShareLimits())

    with pytest.raises(KafkaError, match="Failed to initialize"):
        core.restore(StateRead(KEY, start_offset=0, dead_letters=b"?"), 0)


# ---- records that are set aside ----------------------------------------------------------------------------


def test_a_rejected_record_waits_for_its_dead_letter_and_holds_the_start_offset() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()

    outcome = partition.begin_acknowledge(0, 9, REJECT, *[ACCEPT] * 3, GAP, REJECT, *[ACCEPT] * 4)

    assert outcome.write is not None
    assert [tuple(one) for one in outcome.write.batches] == [
        (0, 0, ARCHIVING, 1),
        (1, 3, ACKNOWLEDGED, 1),
        (4, 4, ARCHIVED, 1),
        (5, 5, ARCHIVING, 1),
        (6, 9, ACKNOWLEDGED, 1),
    ]
    assert partition.core.find_set_aside(MAX_RANGES) == []  # the coordinator may reject the write
    partition.complete_write(outcome)
    assert partition.window == (0, 9)
    assert partition.core.find_set_aside(MAX_RANGES) == [rejected(0, 0), rejected(5, 5)]
    assert partition.core.find_set_aside(1) == [rejected(0, 0)]
    assert partition.core.in_flight_count == 10


def test_a_rejection_that_could_not_be_written_sets_nothing_aside() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()

    partition.complete_write(partition.begin_acknowledge(0, 9, REJECT), is_written=False)

    assert partition.states == [(0, 9, ACQUIRED, 1)]
    assert not partition.core.has_letters
    assert partition.core.delivery_complete_count == 0


@pytest.mark.parametrize("ends_by", ["release", "lock", "session"])
def test_records_of_the_last_delivery_are_set_aside_however_it_ends(ends_by: str) -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()
    partition.acknowledge(0, 9, RELEASE)
    partition.fetch()

    if ends_by == "lock":
        outcome = partition.wait(LOCK_MS)
    elif ends_by == "session":
        outcome = partition.core.release_all("m1")
    else:
        outcome = partition.begin_acknowledge(0, 9, RELEASE)

    assert outcome.write is not None
    assert [tuple(one) for one in outcome.write.batches] == [(0, 9, ARCHIVING, 2)]
    partition.complete_write(outcome)
    assert partition.states == [(0, 9, SPENT, 2)]
    assert partition.core.find_set_aside(MAX_RANGES) == [spent(0, 9)]


def test_records_whose_last_lock_ends_are_set_aside_although_the_write_fails() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()
    partition.acknowledge(0, 9, RELEASE)
    partition.fetch()
    partition.complete_write(partition.wait(LOCK_MS), is_written=False)

    write = partition.core.begin_letters(letters_of(*partition.core.find_set_aside(MAX_RANGES)))

    # A leader that reads the note also reads that the records are being archived.
    assert list(write.batches) == [StateBatch(0, 9, ARCHIVING, 2)]
    assert write.dead_letters is not None
    assert read_note(write.dead_letters) == Note(1, partition.core.letters)


def test_records_are_archived_when_their_dead_letters_are_written() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()
    partition.acknowledge(0, 3, REJECT)
    partition.acknowledge(4, 9, ACCEPT)
    letters = letters_of(*partition.core.find_set_aside(MAX_RANGES))
    partition.core.begin_letters(letters)
    partition.check()

    write = partition.core.end_letters()

    partition.check()
    assert partition.window == (10, 10)
    assert list(write.batches) == [StateBatch(0, 3, ARCHIVED, 1)]
    assert write.dead_letters == encode_note(Note(2, None))  # newer than the last note
    assert not partition.core.has_letters


def test_records_after_those_set_aside_are_delivered_until_the_window_is_full() -> None:
    partition = Partition(config=ShareConfig(sets_aside=True, partition_max_record_locks=30))
    for _ in range(3):
        first, last, _ = partition.fetch()[0]
        partition.acknowledge(first, last, REJECT)

    assert not partition.core.may_acquire()
    partition.core.begin_letters(letters_of(*partition.core.find_set_aside(2)))
    partition.core.end_letters()
    assert partition.core.may_acquire()


def test_a_new_leader_finds_records_set_aside_and_the_batch_in_flight() -> None:
    letters = letters_of(rejected(10, 11))
    core = SharePartition(KEY, 8, SETS_ASIDE, ShareLimits())
    batches = [(10, 12, ARCHIVING, 1), (13, 13, ACKNOWLEDGED, 1), (14, 15, ARCHIVING, 2)]

    core.restore(
        StateRead(
            KEY,
            start_offset=10,
            batches=tuple(StateBatch(*one) for one in batches),
            dead_letters=encode_note(Note(9, letters)),
        ),
        0,
    )

    assert core.letters == letters
    assert core.start_offset == 10
    assert core.end_letters().dead_letters == encode_note(Note(10, None))
    core.check_invariants()
    assert core.start_offset == 12
    # The reason is not written: records at the delivery limit count as spent.
    assert core.find_set_aside(MAX_RANGES) == [rejected(12, 12), spent(14, 15)]


def test_a_group_that_loses_its_dead_letter_topic_archives_the_records_set_aside() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()
    partition.acknowledge(0, 9, REJECT)

    write = partition.core.archive_without_letters(partition.core.find_set_aside(MAX_RANGES))

    partition.check()
    assert list(write.batches) == [StateBatch(0, 9, ARCHIVED, 1)]
    assert write.dead_letters == encode_note(Note(1, None))
    assert partition.window == (10, 10)


def test_records_that_the_log_has_lost_keep_their_dead_letters() -> None:
    partition = Partition(config=SETS_ASIDE)
    partition.fetch()
    partition.acknowledge(0, 9, REJECT)

    partition.core.move_log_start(5)

    partition.check()
    assert partition.core.start_offset == 5
    assert partition.core.find_set_aside(MAX_RANGES) == [rejected(0, 9)]
    partition.core.archive_without_letters(partition.core.find_set_aside(MAX_RANGES))
    partition.check()
    assert partition.window == (10, 10)
