"""What voters say to each other, in the notation of messages; nothing but numbers, flags and bytes.

A frame is one byte for the kind, one for the version, and the body. Whoever reads one checks every length
against the bytes that are there, so a frame never costs more memory than it has; CORRUPT_MESSAGE otherwise.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct
from ottla.logstore.words.schema_compiler import decoder, encoder
from ottla.logstore.words.varint import ByteSource
from ottla.metadata_raft.record_codec import MAX_BATCH_BYTES

# The largest entry and what stands around it.
MAX_FRAME_BYTES: Final = MAX_BATCH_BYTES + 1024 * 1024
_VERSION: Final = 0

# `copy_id` in a message: the directory of whoever sends it is a copy, and it does not know what it promised;
# the number is another one at each start. 0: it knows. `candidate_copy_id` in an answer is that of the one
# who asked, which must not count what was granted to the same node before.


@message(versions=(0, 0), flexible_since=0)
class PreVote:
    """Would you vote for me in `term`? Asked before a term is begun, so that who is cut off begins none."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class PreVoteGranted:
    """I would."""

    term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)
    candidate_copy_id: int = schema.int64(tag=1, default=0)


@message(versions=(0, 0), flexible_since=0)
class RequestVote:
    """Vote for me in `term`."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class VoteGranted:
    """I did, and it is on my disk."""

    term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)
    candidate_copy_id: int = schema.int64(tag=1, default=0)


@message(versions=(0, 0), flexible_since=0)
class TermHint:
    """Your term is over, this one is known here."""

    term: int = schema.int32()


@message(versions=(0, 0), flexible_since=0)
class TimeoutNow:
    """Stand for election at once: I am about to go."""

    term: int = schema.int32()


@struct
class AppendedEntry:
    batch: bytes = schema.bytes_()


@message(versions=(0, 0), flexible_since=0)
class AppendEntries:
    """The entries behind `previous_index`, none to say that the leader is there."""

    term: int = schema.int32()
    commit_index: int = schema.int64()
    previous_index: int = schema.int64()
    previous_term: int = schema.int32()
    entries: Sequence[AppendedEntry] = schema.array(AppendedEntry)


@message(versions=(0, 0), flexible_since=0)
class AppendReply:
    """To the request with this `previous_index`: all below `next_index` is the same here and on disk; or,
    without success, where the leader should try next.
    """

    term: int = schema.int32()
    previous_index: int = schema.int64()
    success: bool = schema.boolean()
    next_index: int = schema.int64()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class SnapshotChunk:
    """A piece of the snapshot that ends with the entry `last_index`."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    end_offset: int = schema.int64()
    total_bytes: int = schema.int64()
    position: int = schema.int64()
    chunk: bytes = schema.bytes_()


@message(versions=(0, 0), flexible_since=0)
class SnapshotReply:
    """To the piece at `position`: which comes next, or that all up to `last_index` is here and on disk."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    position: int = schema.int64()
    wanted_position: int = schema.int64()
    is_installed: bool = schema.boolean()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class PromiseReminder:
    """The leader to a voter: with this disk you acknowledged the entry `raft_index` of `entry_term` (-1: no
    longer known) in this term; my log ends at `end_index`, so you acknowledged no more than that.

    With `of_copy_id`: whatever you promised before you told of that copy, it was no more than that.
    """

    term: int = schema.int32()
    directory_id: bytes = schema.uuid()
    raft_index: int = schema.int64()
    entry_term: int = schema.int32()
    end_index: int = schema.int64()
    end_offset: int = schema.int64()
    of_copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class PromiseForgotten:
    """My disk went back: send me everything from `next_index` on. I vote for nobody who lacks the entry
    `promised_index` of `promised_term`, and do not stand myself until I have it.
    """

    term: int = schema.int32()
    directory_id: bytes = schema.uuid()
    next_index: int = schema.int64()
    promised_term: int = schema.int32()
    promised_index: int = schema.int64()


RaftMessage: TypeAlias = (
    PreVote
    | PreVoteGranted
    | RequestVote
    | VoteGranted
    | TermHint
    | TimeoutNow
    | AppendEntries
    | AppendReply
    | SnapshotChunk
    | SnapshotReply
    | PromiseReminder
    | PromiseForgotten
)
_KINDS: Final[dict[int, type[RaftMessage]]] = {
    1: PreVote,
    2: PreVoteGranted,
    3: RequestVote,
    4: VoteGranted,
    5: TermHint,
    6: TimeoutNow,
    7: AppendEntries,
    8: AppendReply,
    9: SnapshotChunk,
    10: SnapshotReply,
    11: PromiseReminder,
    12: PromiseForgotten,
}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}


def encode_message(value: RaftMessage) -> bytes:
    """The content of one frame."""
    cls = type(value)
    return b"".join(encoder(cls, _VERSION)(value, bytearray((_KIND_OF[cls], _VERSION))))


def decode_message(frame: ByteSource) -> RaftMessage:
    """The inverse of `encode_message`."""
    cls = _KINDS.get(frame[0]) if len(frame) > 1 else None
    if cls is None:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A message of a voter has an unknown kind.")
    try:
        value, end = decoder(cls, frame[1])(frame, 2)
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A {cls.__name__} is malformed: {error.detail}"
        ) from None
    if end != len(frame):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A {cls.__name__} has {len(frame) - end} bytes after its end."
        )
    return value
