"""The nemesis injects faults of random kinds at random times, as the seed decides, and ends them.

Each seed has its own mixture of faults, so that some runs only kill nodes and others only cut links. A fault
that would destroy records of any cluster is left out: a host loses power only while all replicas of all
partitions are in sync, and then no other node is ended until that host has caught up.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ottla.groupcoord.share_state.share_state_records import SHARE_STATE_TOPIC
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.share.led_partition import LedPartition
from tests.simulation.world import VirtualNode, World

KINDS: Final = (
    "kill",
    "power",
    "stop",
    "pause",
    "cut_one_way",
    "isolate",
    "split",
    "slow_link",
    "reset",
    "clock_jump",
    "slow_disk",
    "disk_error",
    "full_disk",
    "kill_at_disk_step",
    "power_at_disk_step",
    "kill_all",
    "kill_leaders_in_turn",
    "kill_leader_of_grown_isr",
)
# Where there are transactions.
TXN_KINDS: Final = (*KINDS, "kill_coordinator_at_markers")
# Where there is a share group.
SHARE_KINDS: Final = (*KINDS, "cut_leader_from_quorum", "kill_share_coordinator", "kill_leader_at_write")
# Where the share group has dead letters.
LETTER_KINDS: Final = (*SHARE_KINDS, "kill_leader_at_letters")
# Where the cluster balances itself: a reassignment continues when the controller that began it is gone.
BALANCE_KINDS: Final = (
    "kill",
    "kill_all",
    "kill_controller",
    "kill_leaders_in_turn",
    "stop",
    "pause",
    "isolate",
    "split",
    "cut_one_way",
    "slow_link",
    "reset",
)
ALL_KINDS: Final = tuple(dict.fromkeys((*TXN_KINDS, *LETTER_KINDS, *BALANCE_KINDS)))


class Nemesis:
    """The faults of one run; `run` injects them, `heal` ends those that are left."""

    def __init__(
        self, world: World, *, is_safe: Callable[[], bool], kinds: tuple[str, ...] = KINDS, gap_s: float = 1.0
    ) -> None:
        self.world = world
        self.chance = world.chance
        self.gap_s = gap_s
        self.injected: list[str] = []
        self._is_safe = is_safe  # returns True if a disk may lose writes that are not durable
        self._catching_up: VirtualNode | None = None  # lost power and has not caught up yet
        self._failing: dict[VirtualNode, None] = {}  # nodes that end by themselves when they use their disks
        chance = self.chance
        picked = [kind for kind in kinds if chance.random() < 0.5] or [chance.choice(kinds)]
        self.weights = {kind: chance.choice((1, 1, 2, 5)) for kind in picked}
        self._healing: list[asyncio.Task[None]] = []

    async def run(self, seconds: float) -> None:
        """Inject faults for this time."""
        loop = self.world.loop
        end_s = loop.now_s + seconds
        kinds, weights = list(self.weights), list(self.weights.values())
        while True:
            await asyncio.sleep(self.gap_s * self.chance.random() * 2)
            if loop.now_s >= end_s:
                return
            kind = self.chance.choices(kinds, weights)[0]
            fault: Callable[[], Awaitable[None]] = getattr(self, f"_{kind}")
            self.injected.append(f"{loop.now_s:.3f} {kind}")
            self.world.trace("fault", kind)
            self._healing.append(asyncio.ensure_future(fault()))

    async def heal(self) -> None:
        """End all faults and start all nodes that are down."""
        for task in self._healing:
            task.cancel()
        self._healing.clear()
        await asyncio.sleep(0)
        network = self.world.network
        for (source, target), link in list(network.links.items()):
            if link.is_cut:
                network.heal(source, target)
            link.latency_s = min(link.latency_s, 0.001)
            link.jitter_s = min(link.jitter_s, 0.001)
        for node in self.world.nodes:
            node.storage.before = lambda kind, path: None
            node.storage.sync_seconds = lambda: 0.0
            node.clock.offset_ms = 0
            while node.process is not None and node.is_alive and node.process.is_paused:
                node.resume()
            # A node does not use a failed disk again until it is restarted.
            if node.is_alive and (node.needs_restart or node.is_stopping):
                node.kill()
            if not node.is_alive:
                await asyncio.sleep(0.01)
                node.start()

    # ---- processes -----------------------------------------------------------------------------------

    def _victim(self) -> VirtualNode:
        return self.chance.choice(self.world.nodes)

    def _end(self, node: VirtualNode) -> bool:
        """Kill a node unless another one has to catch up after a loss of power; return True if killed."""
        if self._catching_up is not None and self._is_safe():
            self._catching_up = None
        may_end = node.is_alive and self._catching_up in (None, node)
        if may_end:
            node.kill()
        return may_end

    def _cut_power(self, node: VirtualNode) -> None:
        if node.is_alive and self._is_safe() and not self._failing.keys() - {node}:
            self._catching_up = node
            node.lose_power()
        else:
            self._end(node)

    async def _restart(self, node: VirtualNode, seconds: float | None = None) -> None:
        if seconds is None:
            seconds = self.chance.choice((0.02, 0.5, 3.0, 12.0)) * self.chance.random()
        await asyncio.sleep(seconds)
        if not node.is_alive:
            node.storage.before = lambda kind, path: None
            node.start()

    async def _kill(self) -> None:
        node = self._victim()
        self._end(node)
        await self._restart(node)

    async def _kill_all(self) -> None:
        """Kill all processes within moments; the page caches stay."""
        for node in self.world.nodes:
            await asyncio.sleep(0.02 * self.chance.random())
            self._end(node)
        nodes = list(self.world.nodes)
        self.chance.shuffle(nodes)
        for node in nodes:
            await self._restart(node, 0.5 * self.chance.random())

    async def _power(self) -> None:
        node = self._victim()
        self._cut_power(node)
        await self._restart(node)

    async def _stop(self) -> None:
        node = self._victim()
        if node.is_serving and self._catching_up is None:
            stopped = node.stop()
            await asyncio.wait([stopped], timeout=20.0)
            if node.is_alive and not stopped.done():
                node.kill()  # as a supervisor does
        await self._restart(node)

    async def _pause(self) -> None:
        node = self._victim()
        if node.is_alive:
            process = node.process
            node.pause()
            try:
                await asyncio.sleep(self.chance.choice((0.1, 1.0, 5.0, 15.0)) * self.chance.random())
            finally:
                if node.process is process:
                    node.resume()

    async def _kill_at_disk_step(self) -> None:
        await self._end_at_disk_step(self._end)

    async def _power_at_disk_step(self) -> None:
        await self._end_at_disk_step(self._cut_power)

    async def _end_at_disk_step(self, end: Callable[[VirtualNode], object]) -> None:
        """End a node between two operations of its disk, not between two callbacks of the loop."""
        node = self._victim()
        steps = self.chance.randint(1, 40)

        def count(kind: str, path: str) -> None:
            nonlocal steps
            steps -= 1
            if steps == 0:
                end(node)

        if node.is_alive:
            node.storage.before = count
            await asyncio.sleep(2.0)
            if node.is_alive:
                node.storage.before = lambda kind, path: None
        await self._restart(node)

    async def _kill_leaders_in_turn(self) -> None:
        """Kill the leader of a partition, and its successor as soon as that one leads."""
        topic_partition = self._random_partition()
        if topic_partition is None:
            return
        first = self._leader_of(topic_partition)
        if first is None or not self._end(first):
            return
        second = await self._until(lambda: self._other_leader_of(topic_partition, first))
        await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.01)) * self.chance.random())
        if second is not None and self._end(second):
            await self._restart(second)
        await self._restart(first)

    async def _kill_leader_of_grown_isr(self) -> None:
        """Kill the leader of a partition just after a replica has rejoined the ISR."""
        topic_partition = self._random_partition()
        if topic_partition is None:
            return
        size = self._isr_size(topic_partition)

        def leader_of_grown() -> VirtualNode | None:
            nonlocal size
            before, size = size, self._isr_size(topic_partition)
            return self._leader_of(topic_partition) if size > before > 0 else None

        leader = await self._until(leader_of_grown, seconds=5.0)
        if leader is not None and self._end(leader):
            await self._restart(leader)

    async def _kill_coordinator_at_markers(self) -> None:
        """Kill a transaction coordinator that has decided a transaction and not yet written all markers."""

        def deciding_coordinator() -> VirtualNode | None:
            for node in self.world.nodes:
                if node.is_alive and node.is_serving and node.broker is not None:
                    for shard in node.broker.services.txns.shards.values():
                        if shard.coordinator is not None and shard.coordinator.shard.markers_left:
                            return node
            return None

        node = await self._until(deciding_coordinator, every_s=0.0002)
        await asyncio.sleep(self.chance.choice((0.0, 0.0002, 0.001, 0.003)) * self.chance.random())
        if node is not None and self._end(node):
            await self._restart(node)

    async def _cut_leader_from_quorum(self) -> None:
        """Isolate a leader from the controller only: it continues to serve clients and followers."""
        topic_partition = self._random_partition()
        leader = None if topic_partition is None else self._leader_of(topic_partition)
        controllers = [node.host for node in self.world.nodes if node.is_controller and node is not leader]
        if leader is not None and controllers:
            await self._cut_between([leader.host], controllers)

    async def _kill_controller(self) -> None:
        """Kill the controller, in the middle of its work."""
        for node in self.world.nodes:
            if node.is_controller and self._end(node):
                await self._restart(node)

    async def _kill_share_coordinator(self) -> None:
        """Kill a share coordinator, the leader of a partition of the share state topic."""
        topic_partition = TopicPartition(SHARE_STATE_TOPIC, self.chance.randrange(2))
        leader = self._leader_of(topic_partition)
        if leader is not None and self._end(leader):
            await self._restart(leader)

    async def _kill_leader_at_write(self) -> None:
        """Kill the leader of a share-partition while a write of its state is not yet answered."""
        await self._kill_where(lambda led: any(led.core._window.records.transitions))

    async def _kill_leader_at_letters(self) -> None:
        """Kill the leader of a share-partition with dead letters, before or after they are written."""
        moments_s = 0.0, 0.005, 0.01, 0.02
        await self._kill_where(lambda led: led.core.letters is not None, moments_s)

    async def _kill_where(
        self,
        predicate: Callable[[LedPartition], bool],
        moments_s: Sequence[float] = (0.0, 0.0002, 0.001, 0.003),
    ) -> None:
        """Kill the first node with a share-partition that meets `predicate`, at once or a moment later."""

        def leader() -> VirtualNode | None:
            for node in self.world.nodes:
                if not node.is_alive or not node.is_serving or node.broker is None:
                    continue
                if any(map(predicate, node.broker.services.shares.share_partitions.values())):
                    return node
            return None

        node = await self._until(leader, every_s=0.0002, seconds=3.0)
        await asyncio.sleep(self.chance.choice(moments_s) * self.chance.random())
        if node is not None and self._end(node):
            await self._restart(node)

    def _random_partition(self) -> TopicPartition | None:
        image = self.newest_image()
        names = sorted(image.topics.by_name) if image is not None else []
        return TopicPartition(self.chance.choice(names), 0) if names else None

    def newest_image(self) -> MetadataImage | None:
        """Return the newest metadata of the nodes that serve."""
        images = [
            node.broker.quorum_services.image
            for node in self.world.nodes
            if node.is_alive and node.is_serving and node.broker is not None
        ]
        return max(images, key=lambda image: image.version, default=None)

    def _leader_of(self, topic_partition: TopicPartition) -> VirtualNode | None:
        image = self.newest_image()
        found = None if image is None else image.topics.partition(topic_partition)
        if found is None or not found.has_leader:
            return None
        node = self.world.nodes[found.leader]
        return node if node.is_alive else None

    def _other_leader_of(self, topic_partition: TopicPartition, first: VirtualNode) -> VirtualNode | None:
        leader = self._leader_of(topic_partition)
        return None if leader is first else leader

    def _isr_size(self, topic_partition: TopicPartition) -> int:
        image = self.newest_image()
        found = None if image is None else image.topics.partition(topic_partition)
        return 0 if found is None else len(found.isr)

    async def _until(
        self, find: Callable[[], VirtualNode | None], seconds: float = 10.0, every_s: float = 0.002
    ) -> VirtualNode | None:
        """Call `find` until it finds a node, for at most `seconds`."""
        end_s = self.world.loop.now_s + seconds
        while self.world.loop.now_s < end_s:
            found = find()
            if found is not None:
                return found
            await asyncio.sleep(every_s)
        return None

    # ---- the network ---------------------------------------------------------------------------------

    async def _cut_one_way(self) -> None:
        network, hosts = self.world.network, list(self.world.network.hosts.values())
        node = self._victim().host
        other = self.chance.choice([one for one in hosts if one is not node] or hosts)
        source, target = (node, other) if self.chance.random() < 0.5 else (other, node)
        network.cut(source, target)
        await self._for_a_while()
        network.heal(source, target)

    async def _isolate(self) -> None:
        """Cut one node off from the others, in half of the cases also from the clients."""
        node = self._victim().host
        with_clients = self.chance.random() < 0.5
        others = (
            list(self.world.network.hosts.values())
            if with_clients
            else [one.host for one in self.world.nodes]
        )
        await self._cut_between([node], [one for one in others if one is not node])

    async def _split(self) -> None:
        """Split the hosts into two groups that do not reach each other."""
        hosts = list(self.world.network.hosts.values())
        self.chance.shuffle(hosts)
        middle = self.chance.randint(1, max(1, len(hosts) - 1))
        await self._cut_between(hosts[:middle], hosts[middle:])

    async def _cut_between(self, some: list, others: list) -> None:  # type: ignore[type-arg]
        network = self.world.network
        pairs = [(a, b) for a in some for b in others] + [(b, a) for a in some for b in others]
        for source, target in pairs:
            network.cut(source, target)
        await self._for_a_while()
        for source, target in pairs:
            network.heal(source, target)

    async def _slow_link(self) -> None:
        network, hosts = self.world.network, list(self.world.network.hosts.values())
        link = network.link(self._victim().host, self.chance.choice(hosts))
        before = link.latency_s, link.jitter_s
        link.latency_s, link.jitter_s = self.chance.choice(((0.05, 0.05), (0.3, 0.5), (0.005, 2.0)))
        await self._for_a_while()
        link.latency_s, link.jitter_s = before

    async def _reset(self) -> None:
        """Reset some connections of a node."""
        process = self._victim().process
        if process is not None:
            for socket in list(process.sockets):
                if self.chance.random() < 0.4:
                    self.world.network.reset(socket)

    async def _for_a_while(self) -> None:
        await asyncio.sleep(self.chance.choice((0.2, 1.0, 4.0, 12.0)) * self.chance.random())

    # ---- clocks and disks ------------------------------------------------------------------------------

    async def _clock_jump(self) -> None:
        jumps_ms = (-3_600_000, -5_000, -500, 500, 5_000, 3_600_000)
        self._victim().clock.offset_ms += self.chance.choice(jumps_ms)

    async def _slow_disk(self) -> None:
        storage, chance = self._victim().storage, self.chance
        slowest_s = chance.choice((0.02, 0.2, 1.0))
        storage.sync_seconds = lambda: slowest_s * chance.random()
        await self._for_a_while()
        storage.sync_seconds = lambda: 0.0

    async def _disk_error(self) -> None:
        await self._fail_disk(errno.EIO)

    async def _full_disk(self) -> None:
        await self._fail_disk(errno.ENOSPC)

    async def _fail_disk(self, error: int) -> None:
        """Let changes of a disk fail for a while, beginning with a random one."""
        node = self._victim()
        steps = self.chance.randint(1, 30)

        def fail(kind: str, path: str) -> None:
            nonlocal steps
            steps -= 1
            if steps <= 0 and (error == errno.EIO or kind in ("write", "replace", "create", "mkdir")):
                node.needs_restart = True
                raise OSError(error, os.strerror(error), path)

        if node.is_alive and self._catching_up in (None, node):
            node.storage.before = fail
            self._failing[node] = None
            try:
                await self._for_a_while()
            finally:
                self._failing.pop(node, None)
            # The disk is healed, or has space again, but a node uses it again only after a restart.
            node.storage.before = lambda kind, path: None
            if node.needs_restart:
                self._end(node)
        await self._restart(node)
