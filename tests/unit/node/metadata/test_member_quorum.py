"""A node with and without a vote passes on the commits of its own log and of its observer once, in order."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from ottla.metadata_raft.delta import MetadataChanges, replay_batch
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum_raft import RaftQuorum
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import FeatureLevelRecord, MetadataRecord, RaftVotersRecord, Voter
from ottla.node.metadata.member_quorum import MemberQuorum
from ottla.node.metadata.metadata_observer import MetadataObserver


class Source:
    """Stands in for the voter, and for the observer."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.is_leader = False
        self.leader_id = -1
        self.epoch = 0
        self.runs = 0
        self.is_running = False
        self.end = asyncio.Event()

    def attach(self, listener: Any) -> None:
        self.listener = listener

    def go_on_from(self, image: MetadataImage, voters: Mapping[int, Endpoint]) -> None:
        self.image = image

    async def run(self) -> None:
        self.runs += 1
        self.is_running = True
        try:
            await self.end.wait()
        finally:
            self.is_running = False

    def close(self) -> None:
        self.end.set()


class Listener:
    """The listener of the node, with the events that it received as (kind, version)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.committed_image = MetadataImage()

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        self.events.append(("commit", image.version))

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self.events.append(("snapshot", image.version))


class World:
    """A node's quorum between its voter and its observer, and the batches that tests commit."""

    def __init__(self, *, is_configured: bool = False) -> None:
        self.raft, self.observer, self.listener = Source(), Source(), Listener()
        self.quorum = MemberQuorum(
            1,
            cast(RaftQuorum, self.raft),
            cast(MetadataObserver, self.observer),
            voters=lambda image: {2: Endpoint("there", 9092)},
            is_configured=is_configured,
        )
        self.quorum.attach(cast(Any, self.listener))
        self.batches: list[tuple[MetadataBatch, MetadataImage, MetadataChanges]] = []

    def commit(self, record: MetadataRecord | None = None) -> None:
        """Add a committed batch, which neither source has passed on yet."""
        before = self.batches[-1][1] if self.batches else MetadataImage()
        record = record or FeatureLevelRecord(name=f"f{len(self.batches)}", feature_level=1)
        batch = MetadataBatch(before.version + 1, 1, 1, [record])
        self.batches.append((batch, *replay_batch(before, batch)))

    def commit_in(self, source: Source, *numbers: int) -> None:
        for number in numbers:
            source.listener.handle_commit(*self.batches[number])


def test_commits_of_the_source_that_is_ahead_are_passed_on_once() -> None:
    async def scene() -> None:
        world = World()
        for _ in range(5):
            world.commit()

        world.commit_in(world.observer, 0, 1)
        world.commit_in(world.raft, 0, 1, 2)
        world.commit_in(world.observer, 2, 3)
        world.raft.listener.handle_snapshot(world.batches[4][1], world.batches[4][2])
        world.observer.listener.handle_snapshot(world.batches[3][1], world.batches[3][2])

        assert world.listener.events == [*(("commit", version) for version in range(4)), ("snapshot", 4)]

    asyncio.run(scene())


def test_a_batch_that_does_not_follow_is_passed_on_as_a_snapshot() -> None:
    async def scene() -> None:
        world = World()
        for _ in range(3):
            world.commit()

        world.commit_in(world.raft, 0, 2)

        assert world.listener.events == [("commit", 0), ("snapshot", 2)]

    asyncio.run(scene())


def voters(*ids: int) -> RaftVotersRecord:
    return RaftVotersRecord(
        voters=[Voter(voter_id=one, voter_directory_id=b"d" * 16, endpoints=[]) for one in ids]
    )


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_node_fetches_until_it_has_a_vote_and_again_when_it_has_lost_it() -> None:
    async def scene() -> None:
        world = World()
        running = asyncio.ensure_future(world.quorum.run())
        await until(lambda: world.observer.is_running)
        world.commit(voters(1, 2))
        world.commit(voters(2))

        world.commit_in(world.raft, 0)
        assert world.observer.is_running, "it has a vote, but no leader yet"
        world.raft.leader_id = 2
        await until(lambda: not world.observer.is_running)
        assert world.quorum.leader_id == 2
        world.commit_in(world.raft, 1)
        await until(lambda: world.observer.is_running)

        assert world.observer.image.version == 1 and world.observer.runs == 2
        world.quorum.close()
        await running

    asyncio.run(scene())


def test_a_voter_of_the_settings_does_not_fetch() -> None:
    async def scene() -> None:
        world = World(is_configured=True)
        running = asyncio.ensure_future(world.quorum.run())
        await until(lambda: world.raft.is_running)
        await asyncio.sleep(0.15)

        assert not world.observer.runs
        world.quorum.close()
        await running

    asyncio.run(scene())
