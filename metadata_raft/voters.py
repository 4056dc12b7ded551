"""Who votes in the metadata quorum, and where each voter is reached.

A voter is a node id and the id of the directory in which it keeps the metadata log: a node that lost its disk
comes back with another directory id, and is no voter until it is made one again (KIP-853). A set of voters is
first taken from the settings, where directory ids are unknown; the first leader writes it into the log with
them, and from then on the latest set in the log counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.records import RaftVotersRecord, VoterEndpoint
from ottla.metadata_raft.records import Voter as VoterOfRecord

MAX_VOTERS: Final = 15  # beyond, a commit waits for more nodes than it can gain from
CONTROLLER_LISTENER: Final = "CONTROLLER"  # what the address of a voter is called in the log


class Voter(NamedTuple):
    """One voter; `directory_id` is zeros while nobody knows it, host and port are its controller listener."""

    node_id: int
    directory_id: bytes
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters, by node id in ascending order."""

    by_id: Mapping[int, Voter]

    @staticmethod
    def of(voters: Iterable[Voter]) -> "VoterSet":
        """The set of these voters."""
        return VoterSet({voter.node_id: voter for voter in sorted(voters)})

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, node_id: int) -> bool:
        return node_id in self.by_id

    @property
    def is_settled(self) -> bool:
        """Whether the directory of every voter is known, as in every set that stands in a log."""
        return all(voter.directory_id != ZERO_UUID for voter in self)

    def has(self, node_id: int, directory_id: bytes) -> bool:
        """Whether this very node with this very disk may vote."""
        voter = self.by_id.get(node_id)
        return voter is not None and voter.directory_id in (ZERO_UUID, directory_id)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set with one more voter, or with another directory or address of one that it has."""
        return VoterSet.of([*(old for old in self if old.node_id != voter.node_id), voter])

    def without(self, node_id: int) -> "VoterSet":
        """The set without one voter."""
        return VoterSet.of(old for old in self if old.node_id != node_id)


def voters_of_record(record: RaftVotersRecord) -> VoterSet:
    """The set that a record names; CORRUPT_MESSAGE for nobody, too many, or one without an address."""
    if not 0 < len(record.voters) <= MAX_VOTERS or not all(voter.endpoints for voter in record.voters):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, "A record of voters is empty, or a voter in it has no address."
        )
    return VoterSet.of(
        Voter(voter.voter_id, voter.voter_directory_id, voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in record.voters
    )


def record_of_voters(voters: VoterSet) -> RaftVotersRecord:
    """The record that names them."""
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
    """The voters that the metadata name, None where they never did."""
    if not image.voters:
        return None
    endpoints = [(voter, next(iter(voter.endpoints.values()))) for voter in image.voters]
    return VoterSet.of(
        Voter(voter.voter_id, voter.directory_id, point.host, point.port) for voter, point in endpoints
    )
