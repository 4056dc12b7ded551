"""The states of a transactional id and the one table of their moves."""

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The state of an id's transaction; the value is the name that clients see."""

    EMPTY = "Empty"  # a producer got its epoch and has added nothing
    ONGOING = "Ongoing"  # partitions are in the transaction
    PREPARE_COMMIT = "PrepareCommit"  # decided; markers are on their way
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"  # every partition has its marker
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # expired; its record is a tombstone
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # about to be aborted by the coordinator; never in the log


_S = TransactionState
# From each state to the states that may follow it. Empty, CompleteCommit and CompleteAbort lead to
# PrepareAbort because of KIP-890: aborting nothing moves the epoch, too.
MOVES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}
# Decided, but not every partition has its marker.
PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
# Nothing is open: an id may be removed, a producer may get a new epoch.
AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
