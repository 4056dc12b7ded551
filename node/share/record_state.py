"""The states of a record in flight in a share group, and the one table of their moves.

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

If a group has a topic for dead letters (KIP-1191), a rejected record goes from ACQUIRED to ARCHIVING, a
record at its last delivery to SPENT, and both to ARCHIVED when the dead letter is in that topic.

A released record is AVAILABLE while its release waits for the coordinator, and WAITING after that if there is
a back-off: the only way from AVAILABLE to WAITING.

A move that a member asks for is visible at once, and final when the coordinator has written it. Until then no
other move may begin. If the coordinator rejects the write, the move is taken back, to one of the states in
`TAKEN_BACK_TO`.
"""

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    """The states of a record, with their numbers in messages. WAITING and SPENT exist only in memory."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # rejected, and its dead letter is not written yet
    ARCHIVED = 4
    WAITING = 5  # AVAILABLE after a time: the end of a back-off, or of a delivery delay
    SPENT = 6  # at the delivery limit, and its dead letter is not written yet; written as ARCHIVING


_S = RecordState
# The states that may follow each state.
MOVES: Final[dict[RecordState, frozenset[RecordState]]] = {
    _S.AVAILABLE: frozenset({_S.ACQUIRED, _S.WAITING, _S.ARCHIVED}),
    _S.ACQUIRED: frozenset({_S.AVAILABLE, _S.WAITING, _S.ACKNOWLEDGED, _S.ARCHIVED, _S.ARCHIVING, _S.SPENT}),
    _S.WAITING: frozenset({_S.AVAILABLE, _S.ARCHIVED}),
    _S.ARCHIVING: frozenset({_S.ARCHIVED}),
    _S.SPENT: frozenset({_S.ARCHIVED}),
    _S.ACKNOWLEDGED: frozenset(),
    _S.ARCHIVED: frozenset(),
}
# The states after a move from ACQUIRED is taken back: ACQUIRED again, or ARCHIVED if the log lost the record.
TAKEN_BACK_TO: Final = frozenset({_S.ACQUIRED, _S.ARCHIVED})
TERMINAL: Final = frozenset({_S.ACKNOWLEDGED, _S.ARCHIVED})
# The states of a record whose dead letter is not written yet.
SET_ASIDE: Final = frozenset({_S.ARCHIVING, _S.SPENT})
