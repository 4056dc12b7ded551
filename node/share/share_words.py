"""The settings of a share-partition, and the arguments and results of its operations."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.groupcoord.share_state.share_state_words import StateResult, WriteState
from ottla.logstore.delivery_delay import DueTimes
from ottla.logstore.words.errors import ErrorCode
from ottla.node.counters.share_counters import DeadLetterCounts

# Exceptions other than KafkaError that unforeseen contents of a record may cause in its readers. A producer
# wrote them, so they fail the work on these records and not the node. An AssertionError is still our bug.
UNEXPECTED_ERRORS: Final = (ArithmeticError, LookupError, RuntimeError, ValueError, struct.error)

MAX_DELIVERY_COUNT: Final = 32_767  # an int16 in the messages
# Kafka does not throttle records below this delivery count.
MIN_THROTTLED_DELIVERY_COUNT: Final = 2
# Ranges of offsets with a state of their own, of some 60 bytes each. A group holds no more records than
# `group.share.partition.max.record.locks` (10,000 at most), but for the end of a batch, which may be long.
MAX_STATES: Final = 20_000


class ArchiveReason(Enum):
    """The reason why a record that was delivered is not delivered again."""

    REJECTED = "rejected"
    DELIVERY_LIMIT = "delivery limit"


class SharePartitionStatus(Enum):
    """The states of a share-partition."""

    EMPTY = "empty"  # its state is not read yet
    ACTIVE = "active"
    FAILED = "failed"  # its state is not valid
    FENCED = "fenced"  # another node leads it, or its state has another incarnation


# Every legal move. A new object replaces a fenced share-partition.
SHARE_PARTITION_MOVES: Final[Mapping[SharePartitionStatus, frozenset[SharePartitionStatus]]] = {
    SharePartitionStatus.EMPTY: frozenset(
        {SharePartitionStatus.ACTIVE, SharePartitionStatus.FAILED, SharePartitionStatus.FENCED}
    ),
    SharePartitionStatus.ACTIVE: frozenset({SharePartitionStatus.FENCED}),
    SharePartitionStatus.FAILED: frozenset({SharePartitionStatus.FENCED}),
    SharePartitionStatus.FENCED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConfig:
    """The settings of a share group at the share-partitions, from its own configuration or the node's."""

    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True
    # The wait before a record that was released, or whose lock ended, is available again.
    retry_backoff_ms: int = 0
    retry_backoff_max_ms: int = 0
    # Records that are rejected or at the delivery limit wait for their dead letter before they are archived.
    sets_aside: bool = False
    # Counts records archived at once although the group wants dead letters, if share.version forbids them.
    ignored: DeadLetterCounts | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        assert self.record_lock_duration_ms > 0, self
        assert 0 < self.delivery_count_limit <= MAX_DELIVERY_COUNT, self
        assert self.partition_max_record_locks > 0, self
        assert 0 <= self.retry_backoff_ms <= self.retry_backoff_max_ms, self

    def count_without_letters(self, records: int) -> None:
        """Count records that are archived without the dead letters that their group wants.

        Nothing is counted unless share.version forbids dead letters.
        """
        if self.ignored is not None:
            self.ignored.ignored += records

    def backoff_ms(self, delivery_count: int) -> int:
        """Return the back-off of a record by its delivery count: doubled each time, up to the maximum."""
        if not self.retry_backoff_ms:
            return 0
        # Shifted by at most the bits of the maximum, so that the number stays small.
        doublings = min(max(delivery_count - 1, 0), self.retry_backoff_max_ms.bit_length())
        return min(self.retry_backoff_ms << doublings, self.retry_backoff_max_ms)

    @property
    def throttled_from_count(self) -> int:
        """The delivery count from which batches are delivered in pieces: half of the limit, rounded up."""
        return max(MIN_THROTTLED_DELIVERY_COUNT, (self.delivery_count_limit + 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """Limits of the node, which no group may raise."""

    max_states: int = MAX_STATES


class FetchedRecords(NamedTuple):
    """The first and last offsets of the batches that a fetch from `fetch_offset` has read, in order."""

    fetch_offset: int
    base_offsets: Sequence[int]
    last_offsets: Sequence[int]
    # Ranges of whole batches of aborted transactions, which no member gets, in order.
    never_delivered: Sequence[tuple[int, int]] = ()
    # The times at which single records are due, in topics that delay their delivery, in order.
    due_times: Sequence[DueTimes] = ()
    due_times_to: int = 2**63 - 2  # the last offset for which they are known


class AcquiredRecords(NamedTuple):
    """Records that a member has acquired."""

    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def record_count(self) -> int:
        """Return the number of offsets in the range."""
        return self.last_offset - self.first_offset + 1


class AcknowledgementBatch(NamedTuple):
    """An acknowledgement of a range of offsets, with one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class ArchivedRecords(NamedTuple):
    """Records that were delivered without success, and the reason why they are not delivered again."""

    first_offset: int
    last_offset: int
    delivery_count: int
    reason: ArchiveReason


class Transition(NamedTuple):
    """Changes of states that are final once the coordinator has written them; with number 0, at once."""

    number: int
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a request: an error, or the write that must succeed before the changes are final.

    After a `write`, the caller passes the transition to `persisted` or `failed`.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    write: WriteState | None = None
    transition: Transition | None = None


NOTHING_TO_WRITE: Final = Outcome()

_SERVER_ERROR: Final = "Unable to complete operation due to server error."


# Errors of a write or a read that mean: another leader has the state now, or it was deleted.
FENCED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def persister_error(error: ErrorCode, message: str) -> tuple[ErrorCode, str]:
    """Return the error for a member when the state could not be read or written."""
    match error:
        case (
            ErrorCode.NOT_COORDINATOR
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, message
        case ErrorCode.GROUP_ID_NOT_FOUND | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return error, message
        case ErrorCode.FENCED_LEADER_EPOCH | ErrorCode.FENCED_STATE_EPOCH:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, message
        case ErrorCode.SASL_AUTHENTICATION_FAILED | ErrorCode.UNSUPPORTED_VERSION:
            return ErrorCode.UNKNOWN_SERVER_ERROR, _SERVER_ERROR
        case _:
            return ErrorCode.UNKNOWN_SERVER_ERROR, message


def write_error(result: StateResult) -> tuple[ErrorCode, str]:
    """Return the error for a member when a write failed."""
    return persister_error(result.error, result.message)
