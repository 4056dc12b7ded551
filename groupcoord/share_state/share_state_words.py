"""Requests to a share coordinator about the state of share-partitions, and its answers.

Leaders of share-partitions and group coordinators send them; on the wire they are the APIs 83 to 87. Each
InitializeState begins another incarnation of a state. A leader gets the incarnation's number with a read and
sends it with its writes: a group that was deleted and created again begins with state epochs that were used
before. A delivery state is 0 for available, 2 for acknowledged, 3 for archiving (KIP-1191: a dead letter is
still to be written) and 4 for archived, and -1 stands for an epoch, offset or count that is not given.

`dead_letters` is a note that the leader of a share-partition keeps with the state, on the dead letters that
it is about to produce. It begins with its number, of 8 bytes, and a note with a lower number changes nothing:
a repeated write may come once more, after others. None leaves the note as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_to_text

AVAILABLE: Final = 0
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
NOT_GIVEN: Final = -1


@dataclass(frozen=True, slots=True)
class SharePartitionKey:
    """A partition of a topic, as one share group reads it."""

    group: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text by which the coordinator of this share-partition is found."""
        return f"{self.group}:{uuid_to_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """Records in flight of one state, from the first to the last offset."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_NOTE_NUMBER_BYTES: Final = 8


def newer_note(known: bytes, written: bytes | None) -> bytes:
    """Return the newer of two notes on dead letters, the known and the written one."""
    if written is None or written[:_NOTE_NUMBER_BYTES] < known[:_NOTE_NUMBER_BYTES]:
        return known
    return written


# ---- requests ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitializeState:
    """A request to initialize the state of a share-partition, perhaps again.

    With `start_offset` -1, `share.auto.offset.reset` decides where it starts.
    """

    key: SharePartitionKey
    state_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """A request to read the state, which fences all leaders of earlier epochs."""

    key: SharePartitionKey
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ReadStateSummary:
    """A request to read the state without its batches, which fences no leader."""

    key: SharePartitionKey
    leader_epoch: int = NOT_GIVEN


@dataclass(frozen=True, slots=True)
class WriteState:
    """A request to add batches to the state; records before `start_offset` are done."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    dead_letters: bytes | None = None
    incarnation: int = NOT_GIVEN  # of the state that the writer has read


@dataclass(frozen=True, slots=True)
class DeleteState:
    key: SharePartitionKey


StateRequest: TypeAlias = InitializeState | ReadState | ReadStateSummary | WriteState | DeleteState


# ---- answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateResult:
    """The answer to InitializeState, WriteState and DeleteState."""

    key: SharePartitionKey
    error: ErrorCode = ErrorCode.NONE
    message: str = ""


@dataclass(frozen=True, slots=True)
class StateRead:
    """The state; with an `error` only the message counts."""

    key: SharePartitionKey
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    state_epoch: int = 0
    start_offset: int = 0
    batches: tuple[StateBatch, ...] = ()
    dead_letters: bytes = b""
    incarnation: int = NOT_GIVEN


@dataclass(frozen=True, slots=True)
class StateSummary:
    """The state without its batches; with an `error` only the message counts."""

    key: SharePartitionKey
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = NOT_GIVEN


StateAnswer: TypeAlias = StateResult | StateRead | StateSummary


def refused(request: StateRequest, error: ErrorCode, message: str) -> StateAnswer:
    """Return the answer that rejects a request."""
    match request:
        case ReadState():
            return StateRead(request.key, error, message)
        case ReadStateSummary():
            return StateSummary(request.key, error, message)
        case InitializeState() | WriteState() | DeleteState():
            return StateResult(request.key, error, message)
