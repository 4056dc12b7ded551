"""Records that wait in the window for their dead letters; the start offset cannot pass them."""

from collections.abc import Iterable

from ottla.node.share.record_state import SET_ASIDE
from ottla.node.share.share_window import ARCHIVING, ShareWindow
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason


def find_set_aside(window: ShareWindow, max_ranges: int) -> list[ArchivedRecords]:
    """Return the first ranges that wait for dead letters, of moves that are final."""
    records = window.records
    found: list[ArchivedRecords] = []
    for index, state in enumerate(records.states):
        if state not in SET_ASIDE or records.transitions[index]:
            continue
        reason = ArchiveReason.REJECTED if state == ARCHIVING else ArchiveReason.DELIVERY_LIMIT
        found.append(
            ArchivedRecords(records.firsts[index], records.lasts[index], records.counts[index], reason)
        )
        if len(found) == max_ranges:
            break
    return found


def mark_archived(window: ShareWindow, records: Iterable[ArchivedRecords]) -> None:
    """Archive the records in these ranges that wait for dead letters, and move the start offset."""
    states = frozenset(map(int, SET_ASIDE))
    for one in records:
        window.archive(one.first_offset, one.last_offset, states, is_counted=True)
    window.advance_start()
