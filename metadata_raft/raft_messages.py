"""The messages between voters, in the notation of messages; they consist of numbers, flags and bytes.

A frame is one byte for the kind, one for the version, and the body. The decoder checks every length against
the size of the frame, so a frame never takes more memory than its size; CORRUPT_MESSAGE otherwise.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct
from ottla.logstore.words.schema_compiler import decoder, encoder
from ottla.logstore.words.varint import ByteSource
from ottla.metadata_raft.record_codec import MAX_BATCH_BYTES

# The largest entry, and the rest of a message around it.
MAX_FRAME_BYTES: Final = MAX_BATCH_BYTES + 1024 * 1024
_VERSION: Final = 0

# A `copy_id` other than 0 means that the sender's directory is a copy, so that it does not know its earlier
# votes and acknowledgements; each start has another number. `candidate_copy_id` in an answer repeats the
# candidate's: a vote that was granted to an earlier start of the node must not count.


@message(versions=(0, 0), flexible_since=0)
class PreVote:
    """A request that precedes one for a vote in `term`, so that a disconnected voter does not raise terms."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class PreVoteGranted:
    """The answer to a PreVote: the sender would vote for the candidate."""

    term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)
    candidate_copy_id: int = schema.int64(tag=1, default=0)


@message(versions=(0, 0), flexible_since=0)
class RequestVote:
    """A request for a vote in `term`."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class VoteGranted:
    """The answer to a RequestVote: the sender voted for the candidate, durably."""

    term: int = schema.int32()
    copy_id: int = schema.int64(tag=0, default=0)
    candidate_copy_id: int = schema.int64(tag=1, default=0)


@message(versions=(0, 0), flexible_since=0)
class TermHint:
    """The answer to a message of an older term, with the sender's term."""

    term: int = schema.int32()


@message(versions=(0, 0), flexible_since=0)
class TimeoutNow:
    """A request to a follower to stand for election at once, because the leader is about to resign."""

    term: int = schema.int32()


@struct
class AppendedEntry:
    batch: bytes = schema.bytes_()


@message(versions=(0, 0), flexible_since=0)
class AppendEntries:
    """The entries after `previous_index`; without entries it is a heartbeat."""

    term: int = schema.int32()
    commit_index: int = schema.int64()
    previous_index: int = schema.int64()
    previous_term: int = schema.int32()
    entries: Sequence[AppendedEntry] = schema.array(AppendedEntry)


@message(versions=(0, 0), flexible_since=0)
class AppendReply:
    """The answer to the AppendEntries with this `previous_index`.

    With success, the follower has all entries below `next_index` on disk; without it, `next_index` is the
    next entry for the leader to try.
    """

    term: int = schema.int32()
    previous_index: int = schema.int64()
    success: bool = schema.boolean()
    next_index: int = schema.int64()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class SnapshotChunk:
    """A chunk of the snapshot that ends with the entry `last_index`."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    last_term: int = schema.int32()
    end_offset: int = schema.int64()
    total_bytes: int = schema.int64()
    position: int = schema.int64()
    chunk: bytes = schema.bytes_()


@message(versions=(0, 0), flexible_since=0)
class SnapshotReply:
    """The answer to the chunk at `position`: the position of the next one, or `is_installed` at the end."""

    term: int = schema.int32()
    last_index: int = schema.int64()
    position: int = schema.int64()
    wanted_position: int = schema.int64()
    is_installed: bool = schema.boolean()
    copy_id: int = schema.int64(tag=0, default=0)


@message(versions=(0, 0), flexible_since=0)
class PromiseReminder:
    """A reminder to a voter that it acknowledged an entry that its log seems to lack.

    The voter acknowledged the entry `raft_index` of `entry_term` (-1: unknown) with this directory in this
    term. The leader's log ends at `end_index`, so the voter did not acknowledge more than that.

    With `of_copy_id`, this covers everything that the voter acknowledged before it reported that copy.
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
    """A report that the sender's disk was restored, and a request for all entries from `next_index` on.

    The sender votes for no candidate that lacks the entry `promised_index` of `promised_term`, and does not
    stand for election until it has that entry itself.
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
    """Return the content of one frame."""
    cls = type(value)
    return b"".join(encoder(cls, _VERSION)(value, bytearray((_KIND_OF[cls], _VERSION))))


def decode_message(frame: ByteSource) -> RaftMessage:
    """Return the message that `encode_message` wrote."""
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
