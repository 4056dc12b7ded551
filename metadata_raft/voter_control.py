"""Decides changes of the voters of the quorum: one is added or removed at a time (Raft dissertation §4.1).

The decision is only the next set of voters; the quorum applies it with the record and has rules of its own.
Majorities of two sets that differ by one voter always overlap, so a change must wait until the previous one
is committed.
"""

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import ZERO_UUID
from ottla.metadata_raft.commands import (
    AddRaftVoter,
    AddRaftVoterReply,
    RemoveRaftVoter,
    RemoveRaftVoterReply,
)
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import Endpoint, MetadataImage, VoterImage
from ottla.metadata_raft.records import RaftVotersRecord, Voter, VoterEndpoint
from ottla.metadata_raft.voters import MAX_VOTERS

MAX_ENDPOINTS = 10


def add_raft_voter(
    image: MetadataImage, command: AddRaftVoter, config: ControllerConfig, *, is_settled: bool
) -> Decision:
    """Decide AddRaftVoter.

    DUPLICATE_VOTER if the id is a voter already, REQUEST_TIMED_OUT while the last change is not committed.
    """
    voters = current_voters(image, config)
    if any(voter.voter_id == command.voter_id for voter in voters):
        raise duplicate_voter(command.voter_id)
    if command.voter_id < 0 or command.voter_directory_id == ZERO_UUID or not command.listeners:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A voter needs its id, its directory id and the address that it listens on.",
        )
    if len(voters) >= MAX_VOTERS or len(command.listeners) > MAX_ENDPOINTS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A quorum may have at most {MAX_VOTERS} voters with {MAX_ENDPOINTS} endpoints each.",
        )
    _check_settled(is_settled=is_settled)
    endpoints = {one.name: Endpoint(one.host, one.port) for one in command.listeners}
    voter = VoterImage(command.voter_id, command.voter_directory_id, endpoints)
    return Decision(records=[_record((*voters, voter))], reply=AddRaftVoterReply())


def duplicate_voter(voter_id: int) -> KafkaError:
    """Return the error for adding a node that is a voter already."""
    return KafkaError(
        ErrorCode.DUPLICATE_VOTER, f"The voter id for {voter_id} is already part of the set of voters."
    )


def remove_raft_voter(
    image: MetadataImage, command: RemoveRaftVoter, config: ControllerConfig, *, is_settled: bool
) -> Decision:
    """Decide RemoveRaftVoter; VOTER_NOT_FOUND unless id and directory are a voter's. The last voter stays."""
    voters = current_voters(image, config)
    leaving = next((voter for voter in voters if voter.voter_id == command.voter_id), None)
    if leaving is None or leaving.directory_id not in (ZERO_UUID, command.voter_directory_id):
        raise KafkaError(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {command.voter_id} because it is not in the set of voters.",
        )
    if len(voters) == 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The last voter cannot be removed.")
    _check_settled(is_settled=is_settled)
    rest = tuple(voter for voter in voters if voter is not leaving)
    return Decision(records=[_record(rest)], reply=RemoveRaftVoterReply())


def current_voters(image: MetadataImage, config: ControllerConfig) -> tuple[VoterImage, ...]:
    """Return the voters of the last record, or of `controller.quorum.voters` if there is none."""
    return image.voters or config.quorum_voters


def _check_settled(*, is_settled: bool) -> None:
    if not is_settled:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The last change of the voters is not committed yet; try again."
        )


def _record(voters: tuple[VoterImage, ...]) -> RaftVotersRecord:
    return RaftVotersRecord(
        voters=[
            Voter(
                voter_id=voter.voter_id,
                voter_directory_id=voter.directory_id,
                endpoints=[
                    VoterEndpoint(name=name, host=point.host, port=point.port)
                    for name, point in sorted(voter.endpoints.items())
                ],
            )
            for voter in sorted(voters)
        ]
    )
