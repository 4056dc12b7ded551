"""The replicated log of one voter: in memory for Raft, on disk in Apache Kafka's format.

`OFFSET.log` files hold the entries (see `raft_entry`), `quorum-state` the term and the vote. Changes are
durable after `sync`, which is called once a cycle before any vote or acknowledgement leaves this node; only a
truncation is on disk at once, before anything can be written in its place. At start a torn tail, which was
not synced completely, is cut off: it was never acknowledged. Anything else that is incomplete is damage. If
there are other voters, the log is cut there, and this voter may not vote until the leader has sent it again
everything that it may have acknowledged (`lost_promise`). A lone voter reports the damage and does not start.

The first entry in memory has no content: it is the last one in the snapshot, or a placeholder before the log,
at index 0.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk, DiskFile
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, read_header
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.metadata_raft.quorum_state import (
    NOBODY,
    LostPromise,
    QuorumState,
    read_quorum_state,
    write_quorum_state,
)
from ottla.metadata_raft.raft_entry import (
    MAX_GROUP,
    EntryHeader,
    check_entry,
    peek_entry,
    placed_in_group,
    voters_of,
)
from ottla.metadata_raft.record_codec import MAX_BATCH_BYTES
from ottla.metadata_raft.voters import VoterSet

# Entries in a snapshot that stay in memory, so that a voter that is only slightly behind needs no snapshot.
KEPT_ENTRIES: Final = 1_000
_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log")


class LogStart(NamedTuple):
    """The start of a log: after the last entry of a snapshot, or empty."""

    raft_index: int
    term: int
    end_offset: int
    voters: VoterSet | None


EMPTY_START: Final = LogStart(0, 0, 0, None)


class JournalEntry(NamedTuple):
    """One entry in memory; `batch` is empty in the one before the start of the log."""

    batch: bytes
    raft_index: int
    term: int
    end_offset: int


class _Segment(NamedTuple):
    base_offset: int
    path: Path


class _Damage(Exception):
    """The damage of a segment from this position on."""

    def __init__(self, path: Path, position: int, problem: str) -> None:
        super().__init__(problem)
        self.path, self.position, self.problem = path, position, problem


class _SeenSegment(NamedTuple):
    is_indexed: bool  # whether any entry in it has a Raft index, so that a quorum wrote it
    follows_start: bool  # whether the log up to here agrees with the snapshot at its end


class RaftJournal:
    """The log of one voter. All calls come from one owner, so there are no locks."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        *,
        kept_entries: int = KEPT_ENTRIES,
        configured: VoterSet | None = None,
    ) -> None:
        """`configured` are the voters if the log has no set of voters."""
        self._configured = configured
        self._kept_entries = kept_entries
        self._directory = directory
        self._disk = disk
        self._entries: list[JournalEntry] = [JournalEntry(b"", 0, 0, 0)]
        self._start_voters: VoterSet | None = None
        self._voter_entries: list[tuple[int, VoterSet]] = []  # (index, voters) of those in memory, ascending
        self._segments: list[_Segment] = []
        self._file: DiskFile | None = None
        self._position = 0  # the end of what was written
        self._unwritten: list[JournalEntry] = []
        self._state = QuorumState(0, NOBODY)
        self._is_state_dirty = False
        self._begins_segment = True
        self.is_older_than_quorum = False  # True if `load` found a log without Raft indexes
        self.cut_bytes = 0  # by `load`
        self.damage: str | None = None  # found and cut off by `load`
        self.sync_times = LatencyHistogram()  # of syncs that wrote entries; the owner has the clock
        self.bytes_since_start = 0  # of entries after the last snapshot

    # ---- content ---------------------------------------------------------------------------------------

    @property
    def first(self) -> JournalEntry:
        """The entry before the start of the log in memory."""
        return self._entries[0]

    @property
    def last(self) -> JournalEntry:
        return self._entries[-1]

    @property
    def state(self) -> QuorumState:
        return self._state

    @property
    def lost_promise(self) -> LostPromise | None:
        """The end of the entries that this voter may have acknowledged and lost; None if it lost nothing."""
        return self._state.lost

    @property
    def is_copied(self) -> bool:
        """True if the directory is a copy, so that the voter's later promises are unknown."""
        return self._state.copied_from is not None

    @property
    def is_dirty(self) -> bool:
        """True if `sync` has anything to write."""
        return self._is_state_dirty or bool(self._unwritten)

    @property
    def is_state_dirty(self) -> bool:
        """True if the term or the vote is not on disk yet."""
        return self._is_state_dirty

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, position: int) -> JournalEntry:
        return self._entries[position]

    def at(self, index: int) -> JournalEntry | None:
        """Return the entry with this index, or None if it is not in memory."""
        position = index - self._entries[0].raft_index
        return self._entries[position] if 0 <= position < len(self._entries) else None

    def term_at(self, index: int) -> int | None:
        entry = self.at(index)
        return None if entry is None else entry.term

    def slice(self, start_index: int, *, max_count: int, max_bytes: int) -> Sequence[JournalEntry]:
        """Return entries from `start_index` on, at least one if there is one."""
        position = start_index - self._entries[0].raft_index
        chosen: list[JournalEntry] = []
        size = 0
        for entry in self._entries[position : position + max_count]:
            size += len(entry.batch)
            if chosen and size > max_bytes:
                break
            chosen.append(entry)
        return chosen

    def voters_at(self, index: int) -> VoterSet | None:
        """Return the last set of voters at or below `index`; None if the log has none."""
        for at, voters in reversed(self._voter_entries):
            if at <= index:
                return voters
        return self._start_voters

    @property
    def voters(self) -> VoterSet | None:
        """The last set of voters in the log, committed or not."""
        return self._voter_entries[-1][1] if self._voter_entries else self._start_voters

    @property
    def voters_index(self) -> int:
        """The index of the entry with the last set of voters, 0 if it is not in memory."""
        return self._voter_entries[-1][0] if self._voter_entries else 0

    # ---- start -----------------------------------------------------------------------------------------

    def load(self, start: LogStart) -> None:
        """Read the log after `start`; OSError from the disk.

        If other voters can repair damage, the log is cut there (`damage`). KAFKA_STORAGE_ERROR for any other
        damage, and if the vote is missing.
        """
        self._entries = [JournalEntry(b"", start.raft_index, start.term, start.end_offset)]
        self._start_voters = start.voters
        self._segments = self._list_segments()
        is_indexed, follows_start = start.voters is not None, True
        for number, segment in enumerate(tuple(self._segments)):
            is_last = number + 1 == len(self._segments)
            try:
                seen = self._load_segment(segment, is_last=is_last, follows_start=follows_start)
            except _Damage as damage:
                self._cut_damage(number, damage)
                is_indexed = True
                break
            is_indexed |= seen.is_indexed
            follows_start = seen.follows_start
        if not follows_start:
            # The node died after the leader's snapshot was in place and before its own, diverging log was
            # removed.
            self.restart(start)
        self._remove_covered(start.end_offset)
        self.is_older_than_quorum = not is_indexed and self.last.end_offset > 0
        self._load_state(is_indexed=is_indexed)

    def _cut_damage(self, number: int, damage: _Damage) -> None:
        """Cut the log at the damage, and record the end of what this voter may have acknowledged.

        KAFKA_STORAGE_ERROR if there is no other voter to have it, or if the vote of this voter is unknown.
        """
        voters = self.voters or self._configured
        state = read_quorum_state(self._disk, self._directory)
        if voters is None or len(voters.by_id) < 2 or state is None:
            raise _damaged(damage.path, damage.position, damage.problem) from None
        lost = self._end_behind(number, damage.position, state.term)
        # Before anything is cut: a process that dies in between finds the damage again.
        write_quorum_state(self._disk, self._directory, state._replace(lost=max(lost, state.lost or lost)))
        while len(self._segments) > number + 1:
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self._directory)
        segment = self._segments[number]
        self._open_end(segment, min(damage.position, self._disk.file_size(segment.path)))
        self._begins_segment = True
        self.damage = f"{damage.path} at position {damage.position}: {damage.problem}"

    def begin_again(self, term: int, end_offset: int) -> bool:
        """Remove the log because the snapshot before it is damaged; False if that is not allowed.

        `term` and `end_offset` are the end of the snapshot. The end of what this voter may have acknowledged
        is recorded first. A lone voter, or one whose vote is unknown, changes nothing.
        """
        state = read_quorum_state(self._disk, self._directory)
        if self._configured is None or len(self._configured.by_id) < 2 or state is None:
            return False
        self._segments = self._list_segments()
        lost = self._end_behind(0, -1, term) if self._segments else LostPromise(term, 0, 0)
        if lost.end_offset < end_offset:
            # No entry after the snapshot gives its index, which is not larger than the number of its records.
            lost = LostPromise(max(term, lost.term), end_offset, end_offset)
        write_quorum_state(self._disk, self._directory, state._replace(lost=max(lost, state.lost or lost)))
        while self._segments:
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self._directory)
        return True

    def _end_behind(self, number: int, position: int, term: int) -> LostPromise:
        """Return the last possible end of a log whose segment `number` is damaged at `position`.

        It is the end of the last whole entry after the damage. Without one, the number of entries is unknown,
        but none was smaller than a header.
        """
        ends: list[LostPromise] = []
        size_bytes = 0
        for segment in self._segments[number:]:
            content = self._disk.read_file(segment.path)
            size_bytes += len(content) - max(0, position)
            ends += [
                LostPromise(header.term, header.raft_index, header.next_offset)
                for header in _whole_entries(content, position, max_place=MAX_GROUP)
                if header.raft_index >= 0
            ]
            position = -1  # from the first byte on
        if ends:
            return max(ends)
        count = max(1, size_bytes // HEADER_SIZE)
        return LostPromise(term, self.last.raft_index + count, self.last.end_offset + count)

    def _list_segments(self) -> list[_Segment]:
        names = self._disk.list_directory(self._directory)
        return [
            _Segment(int(match[1]), self._directory / name)
            for name in names
            if (match := _SEGMENT_NAME.fullmatch(name))
        ]

    def _load_segment(self, segment: _Segment, *, is_last: bool, follows_start: bool) -> _SeenSegment:
        start, is_indexed = self._entries[0], False
        # If the log diverges from the snapshot, its entries are not loaded; all of them will be removed.
        if follows_start and segment.base_offset > self.last.end_offset:
            problem = f"the records from offset {self.last.end_offset} on are missing."
            raise _Damage(segment.path, 0, problem)
        content = self._disk.read_file(segment.path)
        position, expected, term = 0, segment.base_offset, 0
        for position, header in self._entries_of(segment.path, content, is_last=is_last):
            if header.base_offset != expected:
                problem = f"offset {header.base_offset} comes after offset {expected - 1}."
                raise _Damage(segment.path, position, problem)
            if header.term < term:
                problem = f"epoch {header.term} comes after epoch {term}."
                raise _Damage(segment.path, position, problem)
            is_indexed |= header.raft_index >= 0
            expected, term = header.next_offset, header.term
            if header.base_offset < start.end_offset <= header.next_offset:
                same = (start.end_offset, start.term) == (header.next_offset, header.term)
                follows_start &= same and header.raft_index in (-1, start.raft_index)
            elif header.base_offset >= start.end_offset and follows_start:
                self._take(segment.path, position, content[position : position + header.size_bytes], header)
            position += header.size_bytes
        if is_last:
            self._open_end(segment, position)
            self.cut_bytes = len(content) - position
            self._begins_segment = expected < start.end_offset
        return _SeenSegment(is_indexed, follows_start)

    def _take(self, path: Path, position: int, batch: bytes, header: EntryHeader) -> None:
        index = self.last.raft_index + 1
        if header.raft_index not in (-1, index) or header.term < self.last.term:
            raise _Damage(
                path,
                position,
                f"entry {header.raft_index} of epoch {header.term} comes after entry {index - 1}.",
            )
        try:
            self._remember(JournalEntry(batch, index, header.term, header.next_offset))
        except KafkaError as error:
            raise _Damage(path, position, error.detail) from None
        self.bytes_since_start += header.size_bytes

    @staticmethod
    def _entries_of(path: Path, content: bytes, *, is_last: bool) -> Iterator[tuple[int, EntryHeader]]:
        """Yield (position, header) of each whole entry, up to a torn tail of the last segment."""
        position = 0
        while position < len(content):
            try:
                header = check_entry(content, position)
            except KafkaError as error:
                if not is_last or was_synced(content, position):
                    raise _Damage(path, position, error.detail) from None
                return
            yield position, header
            position += header.size_bytes

    def _open_end(self, segment: _Segment, position: int) -> None:
        self._file, self._position = self._disk.open(segment.path), position
        if self._file.size() > position:
            self._file.truncate(position)
            self._file.sync()

    def _load_state(self, *, is_indexed: bool) -> None:
        state = read_quorum_state(self._disk, self._directory)
        if state is None and is_indexed:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The file quorum-state is missing in {self._directory}. It holds the "
                "vote of this node, so the node could vote twice without it. Remove "
                "this node from the voters of the quorum, and add it again with an "
                "empty directory.",
            )
        # The term of an entry is this voter's, too, although its file may be slightly older.
        self._state = state or QuorumState(0, NOBODY)
        # Each start writes a new file, so that a backup of an earlier one that replaces it is detected, too.
        self._is_state_dirty = state is not None
        if self.last.term > self._state.term:
            self.set_state(QuorumState(self.last.term, NOBODY))

    # ---- changes ---------------------------------------------------------------------------------------

    def append(self, batch: bytes, index: int, term: int) -> None:
        """Add one entry, durable after `sync`."""
        last, header = self.last, peek_entry(batch)
        assert index == last.raft_index + 1 and header.raft_index == index, "an entry does not follow the log"
        assert header.base_offset == last.end_offset, "a batch does not follow the log"
        assert header.term == term >= last.term, "a term decreases"
        entry = JournalEntry(batch, index, term, header.next_offset)
        self._remember(entry)
        self._unwritten.append(entry)
        self.bytes_since_start += len(batch)

    def _remember(self, entry: JournalEntry) -> None:
        voters = voters_of(entry.batch)
        if voters is not None:
            self._voter_entries.append((entry.raft_index, voters))
        self._entries.append(entry)

    def truncate_from(self, index: int) -> None:
        """Remove the entry `index` and all after it, from the disk too before this returns."""
        first = self._entries[0]
        assert index > first.raft_index, "entries in a snapshot cannot be truncated"
        cut = self._entries[index - first.raft_index :]
        if not cut:
            return
        del self._entries[index - first.raft_index :]
        while self._voter_entries and self._voter_entries[-1][0] >= index:
            self._voter_entries.pop()
        on_disk = len(cut) - len(self._unwritten)
        self._unwritten = [entry for entry in self._unwritten if entry.raft_index < index]
        if on_disk > 0:
            self._cut_files(self.last.end_offset)

    def _cut_files(self, end_offset: int) -> None:
        """Truncate the files to `end_offset`: whole segments first, starting with the last one."""
        while self._segments and self._segments[-1].base_offset >= end_offset:
            self._file = None
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self._directory)
        if not self._segments:
            self._begins_segment = True
            return
        path = self._segments[-1].path
        content = self._disk.read_file(path)
        position = 0
        while position < len(content):
            header = check_entry(content, position)
            if header.base_offset >= end_offset:
                break
            position += header.size_bytes
        self._file, self._position = self._disk.open(path), position
        self._file.truncate(position)
        self._file.sync()

    def set_state(self, state: QuorumState) -> None:
        """Set the term and the vote, durable after `sync`; the rest of the state stays."""
        assert state.term >= self._state.term, "a term decreases"
        self._put_state(state._replace(lost=self._state.lost, copied_from=self._state.copied_from))

    def lose_promise(self, lost: LostPromise | None) -> None:
        """Record the end of what this voter acknowledged and lost, or None; durable after `sync`."""
        self._put_state(self._state._replace(lost=lost))

    def own_directory(self) -> None:
        """Note that the directory is this voter's own: the promises made with its original are known now."""
        self._put_state(self._state._replace(copied_from=None))

    def _put_state(self, state: QuorumState) -> None:
        if state != self._state:
            self._state, self._is_state_dirty = state, True

    def sync(self) -> None:
        """Make everything durable, with one sync of the log; after an OSError the disk's state is unknown."""
        if self._is_state_dirty:
            write_quorum_state(self._disk, self._directory, self._state)
            self._is_state_dirty = False
        while self._unwritten:
            group, rest = self._unwritten[:MAX_GROUP], self._unwritten[MAX_GROUP:]
            self._write(group)
            self._unwritten = rest

    def _write(self, group: Sequence[JournalEntry]) -> None:
        buffers = [placed_in_group(entry.batch, place) for place, entry in enumerate(group)]
        base_offset = peek_entry(group[0].batch).base_offset
        is_begun = bool(self._segments) and self._segments[-1].base_offset == base_offset
        if self._file is None or (self._begins_segment and not is_begun):
            path = self._directory / f"{base_offset:020d}.log"
            self._file, self._position = self._disk.open(path, create=True, is_private=True), 0
            self._segments.append(_Segment(base_offset, path))
            self._disk.sync_directory(self._directory)
        self._begins_segment = False
        content = b"".join(buffers)
        self._file.write_at(self._position, (content,))
        self._file.sync()
        self._position += len(content)

    # ---- snapshots -------------------------------------------------------------------------------------

    def begin_segment(self) -> None:
        """Start a new segment with the next entry, because a snapshot of all entries before it is made."""
        self._begins_segment = True
        self.bytes_since_start = sum(len(entry.batch) for entry in self._unwritten)

    def forget_until(self, start: LogStart) -> None:
        """Drop segments that a durable snapshot covers, and all but its last entries from memory."""
        self._remove_covered(start.end_offset)
        keep_from = start.raft_index - self._kept_entries
        first = self._entries[0]
        if keep_from > first.raft_index:
            self._start_voters = self.voters_at(keep_from)
            del self._entries[: keep_from - first.raft_index]
            self._voter_entries = [pair for pair in self._voter_entries if pair[0] > keep_from]

    def _remove_covered(self, end_offset: int) -> None:
        """Remove segments whose records are all below `end_offset`; the last segment stays."""
        while len(self._segments) > 1 and self._segments[1].base_offset <= end_offset:
            self._disk.remove(self._segments.pop(0).path)

    def restart(self, start: LogStart) -> None:
        """Replace the log by an empty one, after a durable snapshot from the leader that is ahead of it."""
        self._unwritten, self._file = [], None
        # The last segment first: as long as the end of the snapshot is in the log, a start can see that the
        # rest diverges from it.
        while self._segments:
            self._disk.remove(self._segments.pop().path)
            self._disk.sync_directory(self._directory)
        self._begins_segment = True
        self._entries = [JournalEntry(b"", start.raft_index, start.term, start.end_offset)]
        self._start_voters, self._voter_entries = start.voters, []
        self.bytes_since_start = 0


def was_synced(content: bytes, position: int) -> bool:
    """Return True if the broken bytes at `position` had been synced, because a later sync began after them.

    Entries of one sync are written at once, and after a loss of power the disk may have any part of them. The
    first entry of the next group proves that the previous group had reached the disk completely.
    """
    return next(_whole_entries(content, position, max_place=0), None) is not None


def _whole_entries(content: bytes, position: int, *, max_place: int) -> Iterator[EntryHeader]:
    """Yield headers of whole entries that begin after `position`, with a group place up to `max_place`."""
    magic = bytes((MAGIC,))
    found = content.find(magic, position + 1 + 16)
    while found >= 0:
        start = found - 16
        size_bytes = 0
        if _is_likely(content, start, max_place) and _is_whole(content, start):
            header = check_entry(content, start)
            size_bytes = header.size_bytes
            yield header
        found = content.find(magic, found + max(1, size_bytes))


def _is_likely(content: bytes, start: int, max_place: int) -> bool:
    """Return True if an entry may begin here: only plausible headers are worth computing a CRC."""
    if len(content) - start < HEADER_SIZE:
        return False
    header = read_header(content, start)
    return (
        HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(content) - start - LOG_OVERHEAD
        and header.size_bytes <= MAX_BATCH_BYTES
        and header.last_offset_delta == header.records_count - 1
        and header.base_offset > 0
        and header.producer_epoch <= max_place
    )


def _is_whole(content: bytes, position: int) -> bool:
    try:
        check_entry(content, position)
    except KafkaError:
        return False
    return True


def _damaged(path: Path, position: int, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"The metadata log is damaged: {path} at position {position}: {problem} Restore it from a backup.",
    )
