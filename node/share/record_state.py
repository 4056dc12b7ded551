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

A move that a member asks for is shown at once and holds when the coordinator has it on disk. Until then no
other move may begin, and a refusal takes it back, to one of the states in `TAKEN_BACK_TO`.
"""

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The states of a record; the numbers are those of the messages, but for WAITING, which is only here."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4
    WAITING = 5  # as AVAILABLE, but not before its time: a back-off, or a delivery that is delayed


_S = RecordState
# From each state to those that may follow it.
MOVES: Final[dict[RecordState, frozenset[RecordState]]] = {
    _S.AVAILABLE: frozenset({_S.ACQUIRED, _S.WAITING, _S.ARCHIVED}),
    _S.ACQUIRED: frozenset({_S.AVAILABLE, _S.WAITING, _S.ACKNOWLEDGED, _S.ARCHIVED}),
    _S.WAITING: frozenset({_S.AVAILABLE, _S.ARCHIVED}),
    _S.ACKNOWLEDGED: frozenset(),
    _S.ARCHIVED: frozenset(),
}
# Where a move from ACQUIRED leads that the coordinator refused: back, or on when the record is no more.
TAKEN_BACK_TO: Final = frozenset({_S.ACQUIRED, _S.ARCHIVED})
TERMINAL: Final = frozenset({_S.ACKNOWLEDGED, _S.ARCHIVED})
