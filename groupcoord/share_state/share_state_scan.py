"""Replays the log of a shard of share-partitions while it is read.

An update depends on all earlier records, so each record is replayed, in the order of the log, in a thread.
"""

from collections.abc import Callable
from typing import Final

from ottla.groupcoord.log_scan import LogBatch, Pauses, Unreadable, feed_batches, iterate_keys
from ottla.groupcoord.share_state.share_state_records import decode_record
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.logstore.record_batch import CONTROL_BIT
from ottla.logstore.words.errors import KafkaError

# Records between two pauses: some 20 us each, more with many batches.
PAUSE_STATES: Final = 50


class ShareStateScan:
    """A scan of a log of share-partitions: `feed` it the log from its start, then `finish`."""

    def __init__(self, shard: ShareStateShard, pause: Callable[[], None] = lambda: None) -> None:
        """Fill `shard`, which is empty and which no other code uses until the scan is finished."""
        self._shard = shard
        self._pauses = Pauses(pause)
        self._unreadable = Unreadable()
        self._records = 0

    def feed(self, content: bytes) -> int:
        """Take the whole batches at the start of `content`, as `LogScan` says."""
        return feed_batches(content, self._take_batch, self._pauses)

    def _take_batch(self, content: bytes, batch: LogBatch) -> None:
        shard = self._shard
        if not batch.attributes & CONTROL_BIT:
            # In a batch that lacks some records, as after compaction, the offsets of the others are not
            # known: for pruning they count as the first.
            is_whole = batch.next_offset - batch.base_offset == batch.records
            for index, (key, value) in enumerate(iterate_keys(content, batch, self._pauses.pause)):
                shard.next_offset = batch.base_offset + (index if is_whole else 0)
                self._take(key, value)
        shard.next_offset = batch.next_offset

    def _take(self, key: bytes, value: bytes | None) -> None:
        try:
            record = decode_record(key, value)
        except KafkaError as error:
            self._unreadable.add(error.detail)
            return
        if record is not None:
            self._shard.replay(record)
        self._records += 1
        if self._records % PAUSE_STATES == 0:
            self._pauses.pause()

    def finish(self) -> tuple[ShareStateShard, Unreadable]:
        """Return the shard, and the unreadable records; the scan cannot be used after that."""
        return self._shard, self._unreadable
