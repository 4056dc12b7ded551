"""A voter that came back with another disk is removed if its old disk is silent and a majority remains."""

import asyncio
from dataclasses import dataclass

import pytest

from ottla.metadata_raft.quorum import QuorumStatus, ReplicaStatus
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter, VoterSet, record_of_voters
from tests.unit.node.metadata.metadata_node import MetadataNode

OLD = {node_id: bytes([node_id]) * 16 for node_id in (0, 1, 2)}
NEW = b"another disk 16!"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    silent: tuple[int, ...]  # the voters whose registered disk does not answer
    returned: tuple[tuple[int, bytes], ...]
    is_removed: bool


@pytest.mark.parametrize("wants_entry", [True, False])
def test_a_leader_appends_an_entry_that_voters_confirm_for_a_copied_directory(wants_entry: bool) -> None:
    async def scene() -> None:
        node = MetadataNode()
        await node.start()
        before = node.metadata.image.version
        status = node.quorum.status()._replace(wants_entry=wants_entry)
        node.quorum.status = lambda: status  # type: ignore[method-assign]

        node.metadata.tick()

        assert node.metadata.image.version == before + wants_entry

    asyncio.run(scene())


CASES = [
    Case("its old disk is silent", (2,), ((2, NEW),), True),
    Case("its old disk answers: the node was started twice", (), ((2, NEW),), False),
    Case("it is silent, and did not come back", (2,), (), False),
    Case("another voter is silent, too: no majority would be left", (1, 2), ((2, NEW),), False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_voter_of_a_lost_disk_is_removed_when_it_is_safe(case: Case) -> None:
    async def scene() -> None:
        node = MetadataNode()
        await node.start()
        now_ms = node.clock.now_ms()
        voters = VoterSet.of(Voter(node_id, disk, "h", 9093) for node_id, disk in OLD.items())
        version = node.metadata.image.version + 1
        records = [record_of_voters(voters)]
        node.quorum.append(MetadataBatch(version, node.quorum.epoch, now_ms, records))
        status = [
            ReplicaStatus(node_id, disk, 9, now_ms - (10_000 if node_id in case.silent else 0), -1)
            for node_id, disk in OLD.items()
        ]
        node.quorum.status = lambda: QuorumStatus(0, 1, 9, status, (), case.returned)  # type: ignore

        node.metadata.tick()

        left = [voter.voter_id for voter in node.metadata.image.voters]
        assert left == ([0, 1] if case.is_removed else [0, 1, 2])

    asyncio.run(scene())
