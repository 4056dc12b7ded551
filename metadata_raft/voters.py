"""Who votes in the metadata quorum, and where each voter is reached.

A voter is a node id and the id of the directory in which it keeps the metadata log: a node that lost its disk
comes back with another directory id, and is no voter until it is made one again (KIP-853). A set of voters is
first taken from the settings, where directory ids are unknown; the first leader writes it into the log with
them, and from then on the latest set in the log counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from logstore.errors import ErrorCode, KafkaError
from logstore.topic_partition import ZERO_UUID

MAX_VOTERS: Final = 15  # beyond, a commit waits for more nodes than it can gain from
MAX_NODE_ID: Final = 2**31 - 1


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


def parse_voters(text: str) -> VoterSet:
    """The value of `controller.quorum.voters`: `id@host:port,...`; INVALID_CONFIG names what is wrong."""
    voters: dict[int, Voter] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        node_id, at, address = part.partition("@")
        host, colon, port = address.rpartition(":")
        is_right = at and colon and host and node_id.isdecimal() and port.isdecimal()
        if not is_right or int(node_id) > MAX_NODE_ID or not 0 < int(port) < 65536:
            raise _invalid(f"{part!r} is not of the form id@host:port.")
        if int(node_id) in voters:
            raise _invalid(f"the node {node_id} is named twice.")
        voters[int(node_id)] = Voter(int(node_id), ZERO_UUID, host.strip("[]"), int(port))
    if len(voters) > MAX_VOTERS:
        raise _invalid(
            f"{len(voters)} voters are too many, {MAX_VOTERS} may vote; the others need not be named."
        )
    return VoterSet.of(voters.values())


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"controller.quorum.voters: {problem}")
