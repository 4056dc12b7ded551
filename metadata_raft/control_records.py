"""KRaft's control records in the metadata log, as Apache Kafka's tools read them.

They are the first record of a leader epoch, and the header and the footer of a snapshot. Malformed ones raise
CORRUPT_MESSAGE or INVALID_RECORD.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from ottla.logstore.record import iterate_records
from ottla.logstore.words import schema
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import message, struct
from ottla.logstore.words.schema_compiler import encode
from ottla.logstore.words.varint import ByteSource
from ottla.metadata_raft.voters import VoterSet

_KEY_BYTES: Final = 4  # version and type, int16 each


class ControlKind(IntEnum):
    """The type in the key of a control record (int16)."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@struct
class LeaderChangeVoter:
    voter_id: int = schema.int32()


@message(versions=(0, 0), flexible_since=0)
class LeaderChangeMessage:
    """The first record of a leader epoch."""

    version: int = schema.int16()
    leader_id: int = schema.int32()
    voters: Sequence[LeaderChangeVoter] = schema.array(LeaderChangeVoter)
    granting_voters: Sequence[LeaderChangeVoter] = schema.array(LeaderChangeVoter)


def control_key(kind: ControlKind) -> bytes:
    """Return the key of a control record."""
    return b"\0\0" + kind.to_bytes(2, "big")


def leader_change_value(leader_id: int, voters: VoterSet) -> bytes:
    """Return the value of a LEADER_CHANGE record, in the version that kafka-dump-log reads."""
    all_voters = [LeaderChangeVoter(voter_id=voter.node_id) for voter in voters]
    return encode(LeaderChangeMessage(leader_id=leader_id, voters=all_voters), 0)


def control_record(batch: ByteSource) -> tuple[int, bytes]:
    """Return the type and the value of the only record of a control batch."""
    for record in iterate_records(memoryview(batch)):
        if record.key is not None and len(record.key) >= _KEY_BYTES:
            return int.from_bytes(record.key[2:4], "big", signed=True), record.value or b""
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A control batch has no type.")
