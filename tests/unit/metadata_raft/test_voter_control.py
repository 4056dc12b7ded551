"""Voters of the quorum are added and removed by records, one at a time."""

from dataclasses import replace

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import AddRaftVoter, Command, RemoveRaftVoter, VoterListener
from ottla.metadata_raft.image import VoterImage
from tests.unit.metadata_raft.metadata_world import MetadataWorld

LISTENERS = [VoterListener(name="CONTROLLER", host="h", port=9093)]


def directory(voter_id: int) -> bytes:
    return bytes([voter_id + 1]) * 16


def add(voter_id: int) -> AddRaftVoter:
    return AddRaftVoter(voter_id=voter_id, voter_directory_id=directory(voter_id), listeners=LISTENERS)


def of_one() -> MetadataWorld:
    """Return a world with a quorum of node 0."""
    world = MetadataWorld()
    world.submit(add(0))
    world.controller.commit(world.image)
    return world


def refusal(world: MetadataWorld, command: Command) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        world.submit(command)
    return refused.value.code


def test_voters_are_added_and_removed_one_at_a_time() -> None:
    world = of_one()

    world.submit(add(2))
    too_early = refusal(world, add(1))
    world.controller.commit(world.image)
    world.submit(add(1))
    world.controller.commit(world.image)
    world.submit(RemoveRaftVoter(voter_id=0, voter_directory_id=directory(0)))

    assert too_early is ErrorCode.REQUEST_TIMED_OUT
    assert [voter.voter_id for voter in world.image.voters] == [1, 2]
    assert world.image.voters[0].endpoints["CONTROLLER"].port == 9093


def test_invalid_changes_are_rejected() -> None:
    world = of_one()

    assert refusal(world, add(0)) is ErrorCode.DUPLICATE_VOTER
    assert refusal(world, AddRaftVoter(voter_id=3, listeners=LISTENERS)) is ErrorCode.INVALID_REQUEST
    nowhere = AddRaftVoter(voter_id=3, voter_directory_id=directory(3))
    assert refusal(world, nowhere) is ErrorCode.INVALID_REQUEST
    assert refusal(world, RemoveRaftVoter(voter_id=3)) is ErrorCode.VOTER_NOT_FOUND
    successor = RemoveRaftVoter(voter_id=0, voter_directory_id=directory(9))
    assert refusal(world, successor) is ErrorCode.VOTER_NOT_FOUND
    last = RemoveRaftVoter(voter_id=0, voter_directory_id=directory(0))
    assert refusal(world, last) is ErrorCode.INVALID_REQUEST


def test_the_first_change_starts_from_the_configuration() -> None:
    world = MetadataWorld()
    config = world.controller.config
    voters = (VoterImage(0, bytes(16), {}), VoterImage(1, bytes(16), {}))
    world.controller.config = replace(config, quorum_voters=voters)

    world.submit(add(2))

    assert [voter.voter_id for voter in world.image.voters] == [0, 1, 2]


def test_a_discarded_change_is_not_waited_for() -> None:
    world = of_one()
    committed = world.image
    world.submit(add(1))

    world.controller.reset(committed)

    world.submit(add(2))
    assert [voter.voter_id for voter in world.image.voters] == [0, 2]
