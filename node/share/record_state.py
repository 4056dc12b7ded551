"""The states of a record that is in flight in a share group, and the one table of their moves.

                 a member fetches                 accept
    AVAILABLE ────────────────────► ACQUIRED ──────────────► ACKNOWLEDGED
      │  ▲  ▲                        │ │  │
      │  │  └────────────────────────┘ │  │  reject, a gap, the last delivery, an aborted transaction
      │  │   release, lock's time over │  └────────────────► ARCHIVED
      │  │                             ▼                        ▲
      │  └────────────────────────── WAITING ───────────────────┤
      │        its time has come                                │
      └─────────────────────────────────────────────────────────┘
               the record is no longer in the log

Where a group has a topic for dead letters (KIP-1191), a rejected record goes from ACQUIRED to ARCHIVING, one
at its last delivery to SPENT, and both to ARCHIVED when the dead letter is in that topic.

A move that a member asks for is shown at once and holds when the coordinator has it on disk. Until then no
other move may begin, and a refusal takes it back, to one of the states in `TAKEN_BACK_TO`.
"""

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The states of a record; the numbers are those of the messages. WAITING and SPENT are only here."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # rejected, and its dead letter is still to be written
    ARCHIVED = 4
    WAITING = 5  # as AVAILABLE, but not before its time: a back-off, or a delivery that is delayed
    SPENT = 6  # as ARCHIVING, as which it is written, but at the limit of deliveries


_S = RecordState
# From each state to those that may follow it.
MOVES: Final[dict[RecordState, frozenset[RecordState]]] = {
    _S.AVAILABLE: frozenset({_S.ACQUIRED, _S.WAITING, _S.ARCHIVED}),
    _S.ACQUIRED: frozenset({_S.AVAILABLE, _S.WAITING, _S.ACKNOWLEDGED, _S.ARCHIVED, _S.ARCHIVING, _S.SPENT}),
    _S.WAITING: frozenset({_S.AVAILABLE, _S.ARCHIVED}),
    _S.ARCHIVING: frozenset({_S.ARCHIVED}),
    _S.SPENT: frozenset({_S.ARCHIVED}),
    _S.ACKNOWLEDGED: frozenset(),
    _S.ARCHIVED: frozenset(),
}
# Where a move from ACQUIRED leads that the coordinator refused: back, or on when the record is no more.
TAKEN_BACK_TO: Final = frozenset({_S.ACQUIRED, _S.ARCHIVED})
TERMINAL: Final = frozenset({_S.ACKNOWLEDGED, _S.ARCHIVED})
# A dead letter is still to be written.
SET_ASIDE: Final = frozenset({_S.ARCHIVING, _S.SPENT})
