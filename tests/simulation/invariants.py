"""The invariants of a cluster, checked after each turn of the loop.

Each quorum epoch has one leader, and each leader epoch of a partition has one leader. Committed metadata are
equal on all nodes at each offset, and never go back; a node authorizes its clients by the ACLs of the
metadata that it shows. The high watermark of a replica falls only with its log; a leader's log contains
everything below the highest high watermark so far; and below their high watermarks all replicas have the same
bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import BrokerHeartbeat, RegisterBroker
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage, check_invariants
from ottla.node.metadata.metadata_runtime import DEFAULT_TIMEOUT_MS
from ottla.node.replica.partition import Partition
from tests.simulation.virtual_loop import Process, SimulationError
from tests.simulation.world import VirtualNode, World

# The bytes that one check of a replica compares; the rest follows in later turns.
MAX_BYTES_PER_CHECK = 1_000_000
CLOCK_TOLERANCE_S = 0.001
LATE_S = 20.0  # longer than any pause of a process


class Batch(NamedTuple):
    """A committed batch of a log, equal on all replicas."""

    last_offset: int
    leader_epoch: int
    crc: int


class _Seen:
    """The state of a replica when it was last checked."""

    __slots__ = ("compared_to", "high_watermark", "is_leader", "leader_epoch", "log", "log_end_offset")

    def __init__(self) -> None:
        self.is_leader = False
        self.leader_epoch = self.log_end_offset = self.high_watermark = -1
        self.compared_to = -1
        self.log: Any = None


class Invariants:
    """The checks of a world; with `may_lose` unclean elections are allowed, which lose records."""

    def __init__(self, world: World, *, may_lose: bool = False) -> None:
        self.world = world
        self.may_lose = may_lose
        self.images: dict[int, tuple[MetadataImage, str]] = {}  # by version, with the first process
        self.quorum_leaders: dict[int, Process] = {}
        self.partition_leaders: dict[tuple[bytes, int, int], str] = {}
        self.committed: dict[tuple[bytes, int], dict[int, Batch]] = {}
        # High watermark by leader epoch: a node may learn late that it led, and then must have only what was
        # committed up to its epoch.
        self.highest_watermarks: dict[tuple[bytes, int], dict[int, int]] = {}
        # (leader epoch, offset): leaders of later epochs have deleted the records below the offset.
        self.deleted: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.highest_version = -1
        self._seen: dict[Partition, _Seen] = {}
        self._commands: dict[Process, dict[int, tuple[float, str]]] = {}
        self._versions: dict[Process, int] = {}
        # When the last accepted registration or heartbeat of a broker was sent, or its process was started.
        self._contacts: dict[Process, float] = {}
        self._silent: set[Process] = set()  # processes without an accepted registration or heartbeat
        self._nodes: dict[str, VirtualNode] = {node.host.name: node for node in world.nodes}
        world.loop.after_turn = self.after_turn

    def note_deletion(self, topic_partition: TopicPartition, offset: int) -> None:
        """Note a deletion that a client saw answered.

        No topic of that name may have existed before, as deletions are kept by name.
        """
        images = [image for image, _ in self.images.values() if topic_partition.topic in image.topics.by_name]
        topic_id = images[-1].topics.by_name[topic_partition.topic].topic_id
        epochs = [
            epoch
            for name, index, epoch in self.partition_leaders
            if (name, index) == (topic_id, topic_partition.partition)
        ]
        self.deleted.setdefault(topic_partition, []).append((max(epochs), offset))

    def after_turn(self, touched: set[Process]) -> None:
        for process in touched if len(touched) == 1 else sorted(touched, key=lambda one: one.name):
            node = self._nodes.get(process.name)
            if node is None or node.process is not process or process.is_dead or node.broker is None:
                continue
            if node.broker.quorum_services is None:
                continue
            self._watch_commands(node, process)
            self._check_contact(node, process)
            self._check_quorum(node, process)
            self._check_metadata(node, process)
            seen_of = self._seen
            for partition in node.broker.services.replica_manager if node.broker.view.has_services else ():
                seen, log = seen_of.get(partition), partition.log
                # Nearly always nothing has changed: a turn of the loop changes one replica at most.
                if (
                    seen is None
                    or seen.log_end_offset != log.log_end_offset
                    or seen.high_watermark != log.high_watermark
                    or seen.leader_epoch != partition.leader_epoch
                    or seen.is_leader != partition.is_leader
                    or seen.log is not log
                ):
                    self._check_partition(process, partition)

    # ---- commands ----------------------------------------------------------------------------------------

    def _watch_commands(self, node: VirtualNode, process: Process) -> None:
        """Check that each command ends, with success or an error, soon after its timeout."""
        assert node.broker is not None
        now_s = self.world.loop.now_s
        open_commands = self._commands.get(process)
        if open_commands is None:
            open_commands = self._commands[process] = {}
            metadata = node.broker.quorum_services.metadata
            self._contacts[process] = now_s
            self._silent.add(process)

            def note_contact(sent_s: float) -> None:
                self._contacts[process] = sent_s
                self._silent.discard(process)

            metadata.submit = _watched(metadata.submit, open_commands, note_contact, self.world)  # type: ignore[method-assign]
            metadata.handle_commit = _checked(metadata.handle_commit, self.world)  # type: ignore[method-assign]
        if open_commands:
            deadline_s, name = next(iter(open_commands.values()))
            if now_s > deadline_s + LATE_S:
                raise SimulationError(
                    f"{process!r} {name} has not ended {now_s - deadline_s:.1f} s after its timeout"
                )

    def _check_contact(self, node: VirtualNode, process: Process) -> None:
        """Check that a node is cut off exactly when no leader accepted a heartbeat of it for a session."""
        assert node.broker is not None
        if not node.broker.config.is_broker:  # a controller sends no heartbeats
            return
        now_s, contact = self.world.loop.now_s, node.broker.base.state.contact
        silence_s = now_s - self._contacts[process]
        is_cut_off = contact.cut_off_since_ms(now_s) is not None
        if silence_s > contact.limit_s + CLOCK_TOLERANCE_S and not is_cut_off:
            raise SimulationError(f"{process!r} is not cut off after {silence_s:.3f} s of silence")
        has_contact = process not in self._silent
        if has_contact and silence_s < contact.limit_s - CLOCK_TOLERANCE_S and is_cut_off:
            raise SimulationError(f"{process!r} is cut off after only {silence_s:.3f} s of silence")

    # ---- quorum and metadata -------------------------------------------------------------------------

    def _check_quorum(self, node: VirtualNode, process: Process) -> None:
        assert node.broker is not None
        metadata = node.broker.quorum_services.metadata
        if not metadata.is_controller:
            return
        epoch = metadata.controller_epoch
        known = self.quorum_leaders.setdefault(epoch, process)
        if known is not process:
            raise SimulationError(f"{known!r} and {process!r} both lead the quorum in epoch {epoch}")

    def _check_acls(self, node: VirtualNode, process: Process, image: MetadataImage) -> None:
        """Check that a node authorizes by the ACLs of the metadata that it shows."""
        assert node.broker is not None
        authorizer = node.broker.base.authorizer
        if authorizer is not None and node.broker.view.has_services and not authorizer.has_acls(image.acls):
            raise SimulationError(f"{process!r} shows metadata {image.version}, but authorizes by other ACLs")

    def _check_metadata(self, node: VirtualNode, process: Process) -> None:
        assert node.broker is not None
        image = node.broker.quorum_services.image
        version = self._versions.get(process, -1)
        if image.version == version:
            return
        if image.version < version:
            raise SimulationError(f"{process!r} goes back from metadata {version} to {image.version}")
        self._versions[process] = image.version
        self._check_acls(node, process, image)
        known = self.images.get(image.version)
        if known is None:
            try:
                check_invariants(image)
            except AssertionError as error:
                raise SimulationError(f"{process!r} metadata {image.version}: {error}") from error
            self.images[image.version] = (image, repr(process))
            self.highest_version = max(self.highest_version, image.version)
        elif known[0] != image:
            raise SimulationError(
                f"{known[1]} and {process!r} have different metadata at offset {image.version}:"
                f" {difference(known[0], image)}"
            )

    # ---- partitions ------------------------------------------------------------------------------------

    def _check_partition(self, process: Process, partition: Partition) -> None:
        log = partition.log
        seen = self._seen.get(partition)
        if seen is None:
            seen = self._seen[partition] = _Seen()
        name = (partition.topic_id, partition.topic_partition.partition)
        if partition.is_leader:
            self._check_leader(process, partition, name)
        if seen.log is not log:
            seen.log, seen.high_watermark, seen.compared_to = log, -1, -1
        if log.high_watermark < seen.high_watermark and not self.may_lose:
            raise SimulationError(
                f"{process!r} {partition.topic_partition}: the high watermark falls from"
                f" {seen.high_watermark} to {log.high_watermark}"
            )
        seen.high_watermark = log.high_watermark
        self._check_eligible(process, partition)
        if log.high_watermark > log.log_end_offset:
            raise SimulationError(
                f"{process!r} {partition.topic_partition}: the high watermark {log.high_watermark}"
                f" is beyond the log end {log.log_end_offset}"
            )
        seen.is_leader, seen.leader_epoch = partition.is_leader, partition.leader_epoch
        seen.log_end_offset = log.log_end_offset
        if (
            log.high_watermark > seen.compared_to
            and partition.topic_partition.topic not in self.world.compacted
        ):
            seen.compared_to = self._compare(process, partition, max(seen.compared_to, log.log_start_offset))

    def _check_eligible(self, process: Process, partition: Partition) -> None:
        """Check that an eligible leader replica has all committed records (KIP-966)."""
        node, found = self._nodes[process.name], self.images.get(self.highest_version)
        topic = None if found is None else found[0].topics.by_id.get(partition.topic_id)
        if topic is None or self.may_lose:
            return
        index = partition.topic_partition.partition
        if node.node_id not in topic.partitions[index].eligible_leader_replicas:
            return
        committed = max(self.highest_watermarks.get((partition.topic_id, index), {}).values(), default=-1)
        if partition.log.log_end_offset < committed:
            raise SimulationError(
                f"{process!r} may lead {partition.topic_partition} with a log to"
                f" {partition.log.log_end_offset}, although {committed} was committed"
            )

    def _check_leader(self, process: Process, partition: Partition, name: tuple[bytes, int]) -> None:
        where = partition.topic_partition
        leader = self.partition_leaders.setdefault((*name, partition.leader_epoch), process.name)
        if leader != process.name:
            raise SimulationError(
                f"{leader} and {process.name} both lead {where} in epoch {partition.leader_epoch}"
            )
        log = partition.log
        for epoch, offset in self.deleted.get(where, ()):
            if log.log_start_offset < offset and partition.leader_epoch > epoch and not self.may_lose:
                raise SimulationError(
                    f"{process!r} leads {where} in epoch {partition.leader_epoch} from"
                    f" {log.log_start_offset} on, although it was deleted up to {offset} in epoch {epoch}"
                )
        by_epoch = self.highest_watermarks.setdefault(name, {})
        epoch = partition.leader_epoch
        by_epoch[epoch] = max(log.high_watermark, by_epoch.get(epoch, -1))
        highest = max(by_epoch[one] for one in by_epoch if one <= epoch)
        if log.log_end_offset < highest and not self.may_lose:
            raise SimulationError(
                f"{process!r} leads {where} in epoch {partition.leader_epoch} with a log to"
                f" {log.log_end_offset}, although {highest} was committed"
            )

    def _compare(self, process: Process, partition: Partition, start: int) -> int:
        """Compare new batches below the high watermark with other replicas; return the offset after them."""
        log = partition.log
        known = self.committed.setdefault((partition.topic_id, partition.topic_partition.partition), {})
        offset = start
        for base_offset, batch in batches_of(partition, start):
            if batch.last_offset >= log.high_watermark:
                break
            other = known.setdefault(base_offset, batch)
            if other != batch and not self.may_lose:
                raise SimulationError(
                    f"{process!r} has {batch} at {base_offset} of {partition.topic_partition}"
                    f" below its high watermark {log.high_watermark}, others have {other}"
                )
            offset = batch.last_offset + 1
        return offset


def batches_of(partition: Partition, start: int | None = None) -> Iterator[tuple[int, Batch]]:
    """Yield the batches of a log with their base offsets, from the one that contains `start` on.

    `start` is the log start offset by default.
    """
    log = partition.log
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        content = _bytes_from(partition, offset)
        if not content:
            return
        for _, header in iterate_headers(content):
            yield header.base_offset, Batch(header.last_offset, header.partition_leader_epoch, header.crc)
            offset = header.next_offset


def _watched(
    submit: Callable[..., Any],
    open_commands: dict[int, tuple[float, str]],
    note_contact: Callable[[float], None],
    world: World,
) -> Callable[..., Any]:
    """Return `submit` with a record of open commands.

    `note_contact` is called with the time at which an accepted registration or heartbeat was sent.
    """
    count = 0

    async def watched(command: Any, timeout_ms: int = DEFAULT_TIMEOUT_MS, client: Any = None) -> Any:
        nonlocal count
        count += 1
        number = count
        open_commands[number] = world.loop.now_s + timeout_ms / 1000, type(command).__name__
        sent_s = world.loop.now_s
        try:
            reply = await submit(command, timeout_ms, client)
        finally:
            del open_commands[number]
        if isinstance(command, RegisterBroker | BrokerHeartbeat):
            note_contact(sent_s)
        return reply

    return watched


def _checked(handle_commit: Callable[..., None], world: World) -> Callable[..., None]:
    """Return `handle_commit` with a check of each batch of the metadata."""

    def check_batch(batch: Any, image: MetadataImage, changes: MetadataChanges) -> None:
        for before, after in changes.topics:
            if before is not None and after is not None:
                for one, other in zip(before.partitions, after.partitions, strict=False):
                    problem = _problem_of_move(after.name, one, other)
                    if problem is not None:  # a raised error would end the node, and not the run
                        world.loop.call_exception_handler({"message": "", "exception": problem})
        handle_commit(batch, image, changes)

    return check_batch


def _problem_of_move(topic: str, before: PartitionImage, after: PartitionImage) -> SimulationError | None:
    """Return an error if a reassignment ended before all remaining replicas were in sync."""
    remaining = set(after.replicas) - (set(before.replicas) - set(before.adding_replicas))
    is_moving = after.adding_replicas or after.removing_replicas
    if is_moving or remaining <= set(after.isr):
        return None
    return SimulationError(
        f"{topic}-{after.partition} has moved to {after.replicas}, but only {after.isr} are in sync"
    )


def _bytes_from(partition: Partition, offset: int) -> bytes:
    found = partition.log.read(
        offset, MAX_BYTES_PER_CHECK, isolation=FetchIsolation.LOG_END, minimum_one_batch=True
    ).slice
    if found.file is None:
        return b""
    # Around the simulated page cache and its random numbers: a check must not change the run.
    return bytes(found.file._inode.content[found.position : found.position + found.size])  # type: ignore[attr-defined]


def difference(one: MetadataImage, other: MetadataImage) -> str:
    """Return the fields in which two images differ, as text."""
    return ", ".join(
        f"{name}: {getattr(one, name)!r} != {getattr(other, name)!r}"
        for name in one.__dataclass_fields__
        if getattr(one, name) != getattr(other, name)
    )


def replicas_of(world: World, topic_partition: TopicPartition) -> list[tuple[VirtualNode, Partition]]:
    """Return the replicas of a partition on the nodes that are up."""
    found = []
    for node in world.nodes:
        if node.is_alive and node.broker is not None and node.broker.view.has_services:
            partition = node.broker.services.replica_manager.find(topic_partition)
            if partition is not None:
                found.append((node, partition))
    return found
