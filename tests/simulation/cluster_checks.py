"""The checks of a cluster that has recovered and is at rest.

All nodes have the same metadata; the preferred leader of each partition leads after an election; exactly the
assigned nodes have a replica; all replicas of a partition are equal up to the same end, and deleted records
are gone from all; and the quorum's voters are those of the metadata.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage, PartitionImage
from ottla.node.replica.partition import Partition
from tests.simulation import admin_requests
from tests.simulation.history import History
from tests.simulation.invariants import batches_of
from tests.simulation.sim_client import SimClient, pause
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import World

POLL_S: Final = 0.2


async def elect_preferred_leaders(
    world: World, client: SimClient, chance: random.Random, *, limit_s: float
) -> None:
    """Elect the preferred leader of each partition; all replicas are in sync, so each must win."""
    deadline_s = world.loop.now_s + limit_s
    for partition, _ in partitions_of(_image(world)):
        while True:
            try:
                await admin_requests.elect_preferred_leader(client, partition)
                break
            except KafkaError as error:
                if world.loop.now_s > deadline_s:
                    raise SimulationError(f"{partition} gets no preferred leader: {error}") from error
                await pause(chance)


async def wait_until_at_rest(world: World, history: History, *, limit_s: float) -> None:
    """Wait until no replica has a problem; raise SimulationError with the problem after `limit_s`."""
    deadline_s = world.loop.now_s + limit_s
    while (problem := _problem(world, history)) is not None:
        if world.loop.now_s > deadline_s:
            raise SimulationError(problem())
        await asyncio.sleep(POLL_S)


def _problem(world: World, history: History) -> Callable[[], str] | None:
    image = _image(world)
    for node in world.nodes:
        assert node.broker is not None
        found = node.broker.quorum_services.image
        if found != image:
            return lambda: f"{node.process!r} has metadata {found.version}, others {image.version}"
        status = node.broker.quorum_services.quorum.status()
        voters = {one.node_id: one.directory_id for one in status.voters}
        if (
            status.voters
            and image.voters
            and voters != {one.voter_id: one.directory_id for one in image.voters}
        ):
            return lambda: f"{node.process!r} has the voters {sorted(voters)}, not {image.voters}"
    for partition, assigned in partitions_of(image):
        problem = _problem_of(world, partition, assigned, history.of(partition).deleted)
        if problem is not None:
            return problem
    return None


def _problem_of(
    world: World, partition: TopicPartition, assigned: PartitionImage, deleted: int
) -> Callable[[], str] | None:
    replicas: dict[int, Partition] = {}
    for node in world.nodes:
        assert node.broker is not None
        replica = node.broker.services.replica_manager.find(partition)
        if replica is not None:
            replicas[node.node_id] = replica
    if sorted(replicas) != sorted(assigned.replicas):
        return lambda: f"{partition} is on {sorted(replicas)}, assigned to {assigned.replicas}"
    if assigned.leader != assigned.replicas[0]:
        return lambda: f"{partition} is led by {assigned.leader}, not by {assigned.replicas[0]}"
    ends = {(one.log.high_watermark, one.log.log_end_offset) for one in replicas.values()}
    if len(ends) > 1 or any(high_watermark != end for high_watermark, end in ends):
        return lambda: f"the replicas of {partition} have different ends, or are not all committed: {ends}"
    # A deletion that was not answered may have reached only some of them.
    starts = {node_id: one.log.log_start_offset for node_id, one in replicas.items()}
    if min(starts.values()) < deleted:
        return lambda: f"{partition} is deleted up to {deleted}, and its replicas start at {starts}"
    if partition.topic not in world.compacted:
        contents = {
            node_id: tuple(batches_of(one, max(starts.values()))) for node_id, one in replicas.items()
        }
        if len(set(contents.values())) > 1:
            return lambda: f"the replicas of {partition} differ: {contents}"
    return None


def partitions_of(image: MetadataImage) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """Yield the partitions of all topics, by topic and number."""
    for name, topic in sorted(image.topics.by_name.items()):
        for one in topic.partitions:
            yield TopicPartition(name, one.partition), one


def _image(world: World) -> MetadataImage:
    images = [node.broker.quorum_services.image for node in world.nodes if node.broker is not None]
    return max(images, key=lambda image: image.version)
