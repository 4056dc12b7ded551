"""The set of voters of the metadata quorum, with their directories and addresses.

A voter is a node id and the id of the directory of its metadata log: a node that lost its disk comes back
with another directory id, and is not a voter until it is added again (KIP-853). The first set of voters comes
from the settings, without directory ids; the first leader writes it to the log with directory ids, and from
then on the latest set in the log counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import RaftVotersRecord, VoterEndpoint
from ottla.metadata_raft.records import Voter as VoterOfRecord

MAX_VOTERS: Final = 15  # more voters would slow each commit without making it any safer
CONTROLLER_LISTENER: Final = "CONTROLLER"  # the name of a voter's listener in the log


class Voter(NamedTuple):
    """One voter; `directory_id` is zero until it is known, host and port are its controller listener."""

    node_id: int
    directory_id: bytes
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters, in ascending order of node ids."""

    by_id: Mapping[int, Voter]

    @staticmethod
    def of(voters: Iterable[Voter]) -> "VoterSet":
        """Return the set of these voters."""
        return VoterSet({voter.node_id: voter for voter in sorted(voters)})

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, node_id: int) -> bool:
        return node_id in self.by_id

    @property
    def is_settled(self) -> bool:
        """True if the directory of every voter is known, as it is in every set in a log."""
        return all(voter.directory_id != ZERO_UUID for voter in self)

    def has(self, node_id: int, directory_id: bytes) -> bool:
        """Return True if the node is a voter with this directory, or with one that is not known yet."""
        voter = self.by_id.get(node_id)
        return voter is not None and voter.directory_id in (ZERO_UUID, directory_id)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Return the set with this voter added, or replacing the voter with its node id."""
        return VoterSet.of([*(old for old in self if old.node_id != voter.node_id), voter])

    def without(self, node_id: int) -> "VoterSet":
        """Return the set without one voter."""
        return VoterSet.of(old for old in self if old.node_id != node_id)


def voters_of_record(record: RaftVotersRecord) -> VoterSet:
    """Return the set in a record; CORRUPT_MESSAGE if it is empty or too large, or lacks an address."""
    if not 0 < len(record.voters) <= MAX_VOTERS or not all(voter.endpoints for voter in record.voters):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A record of voters is empty or has more than {MAX_VOTERS}, or a voter in it has no address.",
        )
    return VoterSet.of(
        Voter(voter.voter_id, voter.voter_directory_id, voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in record.voters
    )


def record_of_voters(voters: VoterSet) -> RaftVotersRecord:
    """Return the record of a set of voters."""
    return RaftVotersRecord(
        voters=[
            VoterOfRecord(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[VoterEndpoint(name=CONTROLLER_LISTENER, host=voter.host, port=voter.port)],
            )
            for voter in voters
        ]
    )


def voters_of_image(image: MetadataImage) -> VoterSet | None:
    """Return the set of voters in the metadata, or None if it has none yet."""
    if not image.voters:
        return None
    endpoints = [(voter, next(iter(voter.endpoints.values()))) for voter in image.voters]
    return VoterSet.of(
        Voter(voter.voter_id, voter.directory_id, point.host, point.port) for voter, point in endpoints
    )
