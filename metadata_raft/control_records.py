"""The quorum's own entries in the metadata log: the beginning of a reign, and who votes from here on.

Both are KRaft's control records (LeaderChangeMessage, and VotersRecord of KIP-853), so that Apache Kafka's
tools read them. Malformed ones are CORRUPT_MESSAGE.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from logstore import schema
from logstore.errors import ErrorCode, KafkaError
from logstore.record import iterate_records
from logstore.schema import message, struct
from logstore.schema_compiler import decode, encode
from logstore.varint import ByteSource
from metadata_raft.voters import MAX_VOTERS, Voter, VoterSet

_LISTENER: Final = "CONTROLLER"
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
    voter_directory_id: bytes = schema.uuid(since=1)


@message(versions=(0, 1), flexible_since=0)
class LeaderChangeMessage:
    """The first record of a reign."""

    version: int = schema.int16()
    leader_id: int = schema.int32()
    voters: Sequence[LeaderChangeVoter] = schema.array(LeaderChangeVoter)
    granting_voters: Sequence[LeaderChangeVoter] = schema.array(LeaderChangeVoter)


@struct
class VoterEndpoint:
    name: str = schema.string()
    host: str = schema.string()
    port: int = schema.uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = schema.int16()
    max_supported_version: int = schema.int16()


@struct
class VotersRecordVoter:
    voter_id: int = schema.int32()
    voter_directory_id: bytes = schema.uuid()
    endpoints: Sequence[VoterEndpoint] = schema.array(VoterEndpoint)
    k_raft_version_feature: KRaftVersionFeature = schema.struct_(KRaftVersionFeature)


@message(versions=(0, 0), flexible_since=0)
class VotersRecord:
    """Who votes from this record on (KIP-853)."""

    version: int = schema.int16()
    voters: Sequence[VotersRecordVoter] = schema.array(VotersRecordVoter)


def control_key(kind: ControlKind) -> bytes:
    """The key of a control record."""
    return b"\0\0" + kind.to_bytes(2, "big")


def leader_change_value(leader_id: int, voters: VoterSet) -> bytes:
    """The value of a LEADER_CHANGE record."""
    all_voters = [
        LeaderChangeVoter(voter_id=voter.node_id, voter_directory_id=voter.directory_id) for voter in voters
    ]
    return encode(LeaderChangeMessage(version=1, leader_id=leader_id, voters=all_voters), 1)


def voters_value(voters: VoterSet) -> bytes:
    """The value of a KRAFT_VOTERS record."""
    return encode(
        VotersRecord(
            voters=[
                VotersRecordVoter(
                    voter_id=voter.node_id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[VoterEndpoint(name=_LISTENER, host=voter.host, port=voter.port)],
                    k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
                )
                for voter in voters
            ]
        ),
        0,
    )


def voters_of_value(value: bytes) -> VoterSet:
    """The inverse of `voters_value`; CORRUPT_MESSAGE for nobody, too many, or one without an address."""
    record = decode(VotersRecord, 0, value)
    if not 0 < len(record.voters) <= MAX_VOTERS or not all(voter.endpoints for voter in record.voters):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A record of voters is empty, or one has no address.")
    return VoterSet.of(
        Voter(voter.voter_id, voter.voter_directory_id, voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in record.voters
    )


def control_record(batch: ByteSource) -> tuple[int, bytes]:
    """Type and value of the one record of a control batch."""
    for record in iterate_records(memoryview(batch)):
        if record.key is not None and len(record.key) >= _KEY_BYTES:
            return int.from_bytes(record.key[2:4], "big", signed=True), record.value or b""
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A control batch has no type.")
