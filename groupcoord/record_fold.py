"""The log of a shard, folded to what is left of it: the last record of every key, in the order of the log.

A commit writes the same key again and again, and only the last one counts. Folding before decoding makes
loading a shard cost little more than walking its batches, and equals replaying every record, because records
of different keys meet in `replay` only in ways that their order keeps: an offset makes its group, a group's
tombstone removes it.

Offsets that a transaction committed count from its commit marker on, in the place where they were written.
"""

from collections.abc import Iterator

from groupcoord.record_codec import GroupRecord, decode_record
from logstore.errors import KafkaError

_Entry = tuple[int, bytes | None]  # offset in the log, value


class RecordFold:
    """Feed it the log with `add` and the transactions' methods, then read `records`."""

    def __init__(self) -> None:
        self._latest: dict[bytes, _Entry] = {}
        self._open_transactions: dict[int, dict[bytes, _Entry]] = {}
        self.unreadable: list[tuple[int, KafkaError]] = []  # filled while `records` is read

    def add(self, offset: int, key: bytes, value: bytes | None) -> None:
        self._latest[key] = (offset, value)

    def add_transactional(self, producer_id: int, offset: int, key: bytes, value: bytes | None) -> None:
        self._open_transactions.setdefault(producer_id, {})[key] = (offset, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        entries = self._open_transactions.pop(producer_id, {})
        if not committed:
            return
        for key, entry in entries.items():
            existing = self._latest.get(key)
            # A plain commit that came after the transaction's write is the newer one, although its marker is
            # older.
            if existing is None or entry[0] > existing[0]:
                self._latest[key] = entry

    def __len__(self) -> int:
        return len(self._latest)

    def records(self) -> Iterator[GroupRecord]:
        """What is left, decoded; kinds that this version does not know are left out."""
        for key, (offset, value) in sorted(self._latest.items(), key=lambda item: item[1][0]):
            try:
                record = decode_record(key, value)
            except KafkaError as error:
                self.unreadable.append((offset, error))
                continue
            if record is not None:
                yield record
