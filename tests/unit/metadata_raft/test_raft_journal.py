"""The replicated log on disk: synced entries are kept, others are cut off, damage is reported."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.quorum_state import QUORUM_STATE, LostPromise, QuorumState, write_quorum_state
from ottla.metadata_raft.raft_check import damage_in
from ottla.metadata_raft.raft_entry import check_entry, encode_entry, voters_of
from ottla.metadata_raft.raft_journal import EMPTY_START, LogStart, RaftJournal
from ottla.metadata_raft.record_codec import MetadataBatch, encode_batch
from ottla.metadata_raft.records import ConfigRecord, ConfigResourceType, MetadataRecord
from ottla.metadata_raft.voters import Voter, VoterSet, record_of_voters

ROOT = Path("/data")
DIRECTORY = ROOT / "__cluster_metadata-0"
FIRST_SEGMENT = DIRECTORY / f"{0:020d}.log"
VOTERS = VoterSet.of([Voter(1, b"directory-id-16-", "localhost", 9093)])


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    return disk


def opened(disk: MemoryDisk, start: LogStart = EMPTY_START) -> RaftJournal:
    journal = RaftJournal(DIRECTORY, disk)
    journal.load(start)
    return journal


def setting(number: int, size: int = 1) -> MetadataRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.GROUP, resource_name="g", name=f"n{number}", value="v" * size
    )


def add(journal: RaftJournal, term: int, *, count: int = 1, size: int = 1) -> None:
    """Append entries of two records each."""
    for _ in range(count):
        last = journal.last
        if journal.state.term < term:
            journal.set_state(QuorumState(term, 1))
        batch = MetadataBatch(last.end_offset, term, 5, [setting(last.end_offset, size), setting(0)])
        journal.append(encode_entry(batch, last.raft_index + 1), last.raft_index + 1, term)


def content(journal: RaftJournal) -> list[tuple[int, int, int]]:
    """Return (index, term, end offset) of each entry."""
    return [(entry.raft_index, entry.term, entry.end_offset) for entry in journal._entries[1:]]


def test_a_restart_finds_entries_term_and_vote() -> None:
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1, count=3)
    add(journal, 4)
    journal.set_state(QuorumState(5, 2))
    journal.sync()

    again = opened(disk)

    assert content(again) == content(journal) == [(1, 1, 2), (2, 1, 4), (3, 1, 6), (4, 4, 8)]
    assert again.state == QuorumState(5, 2) and again.cut_bytes == 0


def test_one_sync_of_the_log_serves_many_entries() -> None:
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1)
    journal.sync()
    syncs: list[Path] = []
    disk.watch = lambda operation, path: syncs.append(path) if operation == "sync" else None

    add(journal, 1, count=500)
    journal.sync()

    assert syncs == [FIRST_SEGMENT]


def test_what_was_synced_survives_a_loss_of_power_at_any_step_and_any_torn_write() -> None:
    def write(journal: RaftJournal, synced: list[list[tuple[int, int, int]]]) -> None:
        for term in (1, 1, 2, 3):
            add(journal, term, count=3, size=30)
            journal.sync()
            synced.append(content(journal))
        journal.truncate_from(8)
        synced[:] = [one[:7] for one in synced]
        add(journal, 4, count=2)
        journal.sync()
        synced.append(content(journal))

    counted = new_disk()
    write(opened(counted), [])
    for step in range(1, counted.steps + 1):
        for torn_bytes in (0, 40, 250):
            disk = new_disk()
            disk.fail_at, disk.stays_broken, disk.torn_bytes = step, True, torn_bytes
            synced: list[list[tuple[int, int, int]]] = [[]]
            with pytest.raises(OSError):
                write(opened(disk), synced)
            disk.repair()
            disk.lose_power(keep_bytes=lambda _path, unsynced: unsynced // 2)

            again = opened(disk)

            kept = content(again)
            assert kept[: len(synced[-1])] == synced[-1] or kept == synced[-1][:7], f"step {step}"
            assert again.state.term >= again.last.term


def test_a_log_cut_at_any_byte_keeps_its_whole_entries() -> None:
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1, count=4)
    journal.sync()
    whole = bytes(disk.files[FIRST_SEGMENT].content)
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + check_entry(whole, ends[-1]).size_bytes)

    for size in range(len(whole) + 1):
        disk.write_file(FIRST_SEGMENT, whole[:size], sync=True)
        kept = max(end for end in ends if end <= size)

        again = opened(disk)

        assert again.last.raft_index == ends.index(kept) and again.cut_bytes == size - kept
        assert disk.file_size(FIRST_SEGMENT) == kept


def test_a_tail_of_which_the_disk_kept_the_wrong_half_is_cut_off() -> None:
    """The first of several entries of one sync may be torn, and a later one whole."""
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1)
    journal.sync()
    synced = disk.file_size(FIRST_SEGMENT)
    add(journal, 1, count=3)
    journal.sync()
    disk.files[FIRST_SEGMENT].content[synced + 70] ^= 1

    assert opened(disk).last.raft_index == 1
    assert disk.file_size(FIRST_SEGMENT) == synced


def test_damage_to_synced_entries_is_reported_and_stops_the_start() -> None:
    disk = new_disk()
    journal = opened(disk)
    for _ in range(3):
        add(journal, 1)
        journal.sync()
    log = disk.files[FIRST_SEGMENT].content
    size = check_entry(log).size_bytes

    for position in range(size, 2 * size):
        log[position] ^= 0x55
        with pytest.raises(KafkaError) as refused:
            opened(disk)
        log[position] ^= 0x55

        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert f"{FIRST_SEGMENT} at position " in refused.value.detail


THREE_VOTERS = VoterSet.of(
    [Voter(number, bytes([number]) * 16, "localhost", 9090 + number) for number in (1, 2, 3)]
)
BEHIND_A_SNAPSHOT = LogStart(4, 1, 8, THREE_VOTERS)


def behind_a_snapshot(disk: MemoryDisk) -> RaftJournal:
    write_quorum_state(disk, DIRECTORY, QuorumState(1, 2))
    journal = opened(disk, BEHIND_A_SNAPSHOT)
    for term in (1, 1, 2, 2, 3):
        add(journal, term, count=2, size=20)
        journal.sync()
        if term == 2:
            journal.begin_segment()
    journal.set_state(QuorumState(5, 2))
    journal.sync()
    return journal


def test_with_other_voters_a_damaged_log_is_cut_and_the_end_of_lost_entries_is_recorded() -> None:
    whole = behind_a_snapshot(good := new_disk())
    last = whole.last
    paths = sorted(path for path in good.files if path.suffix == ".log")
    assert len(paths) > 1
    for path in paths:
        size_bytes = len(good.files[path].content)
        last_sync = 2 * len(last.batch) if path == paths[-1] else 0
        for position in range(0, size_bytes - last_sync, 13):
            behind_a_snapshot(disk := new_disk())
            disk.files[path].content[position] ^= 0x10

            journal = opened(disk, BEHIND_A_SNAPSHOT)

            assert journal.damage is not None and str(path) in journal.damage, position
            assert content(journal) == content(whole)[: len(content(journal))]
            lost = journal.lost_promise
            assert lost is not None and lost[:2] >= (last.term, last.raft_index), position
            assert journal.state[:2] == (5, 2), "term and vote stay"
            again = opened(disk, BEHIND_A_SNAPSHOT)
            assert (again.damage, again.lost_promise) == (None, lost), "it is cut, and still has no vote"
            add(again, 6, count=3)
            again.sync()
            assert content(opened(disk, BEHIND_A_SNAPSHOT)) == content(again)


def test_damage_in_the_files_of_a_running_voter_is_found() -> None:
    behind_a_snapshot(good := new_disk())
    assert list(damage_in(DIRECTORY, good)) == []
    for path in sorted(path for path in good.files if path.suffix == ".log")[:-1]:
        behind_a_snapshot(disk := new_disk())
        disk.files[path].content[30] ^= 1
        (found,) = damage_in(DIRECTORY, disk)
        assert (found.path, found.position) == (path, 0)
    last = max(path for path in good.files if path.suffix == ".log")
    del good.files[last].content[-5:]
    assert list(damage_in(DIRECTORY, good)) == [], "an entry that is being written is not checked"
    assert list(damage_in(DIRECTORY / "not there", good)) == []


def test_a_crash_while_damage_is_cut_off_loses_no_promise() -> None:
    for step in range(1, 20):
        whole = behind_a_snapshot(disk := new_disk())
        first = min(path for path in disk.files if path.suffix == ".log")
        disk.files[first].content[70] ^= 1
        disk.steps, disk.fail_at, disk.stays_broken = 0, step, True
        try:
            opened(disk, BEHIND_A_SNAPSHOT)
            assert step > 5, "there were crashes before"
            return
        except OSError:
            pass
        disk.fail_at = None
        lost = opened(disk, BEHIND_A_SNAPSHOT).lost_promise
        assert lost is not None and lost[:2] >= (whole.last.term, whole.last.raft_index), step
    pytest.fail("it needs more steps than were tried")


def test_a_missing_quorum_state_is_an_error_if_votes_were_given() -> None:
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1)
    journal.sync()
    disk.remove(DIRECTORY / QUORUM_STATE)

    with pytest.raises(KafkaError, match="quorum-state is missing"):
        opened(disk)


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"leaderEpoch": "1"}', b"[" * 4000, b"x" * 5000])
def test_a_damaged_quorum_state_is_an_error(damaged: bytes) -> None:
    disk = new_disk()
    disk.write_file(DIRECTORY / QUORUM_STATE, damaged, sync=True)

    with pytest.raises(KafkaError, match="quorum-state is damaged"):
        opened(disk)


def of_voter(term: int = 3) -> MemoryDisk:
    """Return the disk of a voter that has voted."""
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1)
    journal.set_state(QuorumState(term, 2))
    journal.sync()
    return disk


def test_a_copy_stays_one_over_restarts_and_votes_until_it_counts_as_the_voters_own() -> None:
    copy = of_voter().copy(device=2)

    journal = opened(copy)
    journal.set_state(QuorumState(9, 1))
    journal.sync()

    assert journal.is_copied and opened(copy).is_copied and opened(copy.copy(device=3)).is_copied
    journal.own_directory()
    assert opened(copy).is_copied, "it was not synced"
    journal.sync()
    assert not opened(copy).is_copied and opened(copy).state == QuorumState(9, 1)


def test_a_volume_that_is_rolled_back_and_a_directory_that_stays_are_no_copies() -> None:
    disk = of_voter()

    assert not opened(disk).is_copied and not opened(disk.copy()).is_copied


def test_a_backup_of_an_earlier_start_is_detected_in_the_same_place() -> None:
    disk = of_voter()
    backup = disk.read_file(DIRECTORY / QUORUM_STATE)

    journal = opened(disk)
    journal.sync()  # as each start does
    assert journal.state == QuorumState(3, 2)
    disk.write_file(DIRECTORY / QUORUM_STATE, backup, sync=True)

    assert opened(disk).is_copied


def test_an_invalid_identity_is_damage() -> None:
    disk = new_disk()
    damaged = b'{"leaderEpoch": 1, "votedId": 1, "data_version": 1, "fileIdentity": %s}'
    for value in (b'"x"', b"7", b"null", b"[]"):
        disk.write_file(DIRECTORY / QUORUM_STATE, damaged % value, sync=True)

        with pytest.raises(KafkaError, match="quorum-state is damaged"):
            opened(disk)


def test_the_batches_of_a_log_from_before_the_quorum_are_counted() -> None:
    disk = new_disk()
    batches = [MetadataBatch(0, 1, 5, [setting(1), setting(2)]), MetadataBatch(2, 3, 6, [setting(3)])]
    disk.write_file(FIRST_SEGMENT, b"".join(encode_batch(batch) for batch in batches), sync=True)

    journal = opened(disk)

    assert content(journal) == [(1, 1, 2), (2, 3, 3)] and journal.is_older_than_quorum
    assert journal.state == QuorumState(3, -1)
    add(journal, 4)
    journal.sync()
    assert content(opened(disk)) == [(1, 1, 2), (2, 3, 3), (3, 4, 5)]


def test_voters_count_from_their_entry_on_until_it_is_truncated() -> None:
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1)
    batch = MetadataBatch(2, 1, 5, [record_of_voters(VOTERS)])
    entry = encode_entry(batch, 2)
    journal.append(entry, 2, 1)
    add(journal, 1)
    journal.sync()

    assert (journal.voters_at(1), journal.voters_at(2), journal.voters) == (None, VOTERS, VOTERS)
    assert opened(disk).voters == VOTERS and voters_of(entry) == VOTERS
    journal.truncate_from(2)
    assert journal.voters is None and opened(disk).voters is None


def test_truncation_removes_later_files() -> None:
    disk = new_disk()
    journal = opened(disk)
    for _ in range(3):
        add(journal, 1, count=2)
        journal.sync()
        journal.begin_segment()
    assert len(disk.list_directory(DIRECTORY)) == 4  # with quorum-state

    journal.truncate_from(2)
    add(journal, 2)
    journal.sync()

    assert content(journal) == content(opened(disk)) == [(1, 1, 2), (2, 2, 4)]


def test_files_that_a_snapshot_covers_are_removed_and_some_entries_stay_in_memory() -> None:
    disk = new_disk()
    journal = RaftJournal(DIRECTORY, disk, kept_entries=1)
    journal.load(EMPTY_START)
    add(journal, 1, count=5)
    journal.sync()
    journal.begin_segment()
    add(journal, 1, count=2)
    journal.sync()

    journal.forget_until(LogStart(5, 1, 10, VOTERS))

    assert FIRST_SEGMENT not in disk.files and journal.first.raft_index == 4
    assert content(opened(disk, LogStart(5, 1, 10, VOTERS))) == [(6, 1, 12), (7, 1, 14)]


def test_a_log_that_diverges_from_the_snapshot_is_dropped_at_start() -> None:
    """The node died after the leader's snapshot was stored and before its own log was removed."""
    disk = new_disk()
    journal = opened(disk)
    add(journal, 1, count=4)
    journal.sync()

    same = opened(disk, LogStart(3, 1, 6, VOTERS))
    other = opened(disk, LogStart(3, 2, 6, VOTERS))
    add(other, 3)
    other.sync()

    assert content(same) == [(4, 1, 8)]
    assert content(other) == content(opened(disk, LogStart(3, 2, 6, VOTERS))) == [(4, 3, 8)]


def test_a_diverging_log_of_several_files_is_dropped_as_a_whole() -> None:
    disk = new_disk()
    journal = opened(disk)
    for _ in range(3):
        add(journal, 1, count=3)
        journal.sync()
        journal.begin_segment()

    other = opened(disk, LogStart(3, 2, 6, VOTERS))

    assert content(other) == [] and other.last.raft_index == 3
    assert [path.name for path in disk.files] == [QUORUM_STATE]
    assert content(opened(disk.copy(), LogStart(3, 2, 6, VOTERS))) == []


def test_the_end_of_lost_entries_survives_terms_votes_and_restarts() -> None:
    disk = new_disk()
    journal = opened(disk)
    journal.set_state(QuorumState(5, 2))
    journal.lose_promise(LostPromise(5, 20, 30))
    journal.set_state(QuorumState(6, 1))
    journal.sync()

    again = opened(disk)

    assert again.state == QuorumState(6, 1, LostPromise(5, 20, 30))
