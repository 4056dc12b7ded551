"""The quorum as a node uses it: a voter in its own thread, with real disks and sockets."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.logstore.disk import DiskFile, MemoryDisk, OsDisk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import raft_core
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum_raft import LoadedMetadata, RaftQuorum
from ottla.metadata_raft.raft_core import SnapshotRule
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import LinkIdentity
from ottla.metadata_raft.raft_link import LinkSettings
from ottla.metadata_raft.raft_node import HEARTBEAT_SECONDS
from ottla.metadata_raft.record_codec import MetadataBatch, encode_batch
from ottla.metadata_raft.records import ConfigRecord, ConfigResourceType, MetadataRecord
from ottla.metadata_raft.voters import Voter, VoterSet
from tests.integration.test_raft_links import until
from tests.ports import free_port

HOST = "127.0.0.1"
OBSERVER = 4  # the id of a node that is no voter
EMPTY = MetadataImage(cluster_id=b"a cluster of 16!")


def setting(name: str, size: int = 1) -> MetadataRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.GROUP, resource_name="g", name=name, value="v" * size
    )


class Node:
    """A quorum and its listener."""

    def __init__(self, quorum: RaftQuorum) -> None:
        self.quorum = quorum
        self.loaded: LoadedMetadata = quorum.load(EMPTY)
        self.committed_image = self.loaded.image
        self.leading = 0
        self.resigned: list[str] = []
        self.commits: list[MetadataBatch] = []
        self.snapshots = 0
        self.raises = False
        quorum.attach(self)

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        if self.raises:
            raise RuntimeError("the listener broke")
        assert image.version == batch.last_offset == self.committed_image.version + len(batch.records)
        self.committed_image = image
        self.commits.append(batch)

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        assert image.version > self.committed_image.version
        self.committed_image = image
        self.snapshots += 1

    def handle_leadership(self, epoch: int) -> None:
        self.leading = epoch

    def handle_resignation(self, detail: str) -> None:
        self.leading = 0
        self.resigned.append(detail)

    def handle_leader_change(self) -> None:
        return

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        return

    @property
    def settings(self) -> set[str]:
        return set(self.committed_image.configs.group("g"))

    def append(self, *records: MetadataRecord, at: int | None = None) -> None:
        offset = self.committed_image.version + 1 if at is None else at
        self.quorum.append(MetadataBatch(offset, self.quorum.epoch, int(time.time() * 1000), records))


def voter_ports() -> dict[int, int]:
    """Return a free port for each of three voters."""
    return {node_id: free_port() for node_id in (1, 2, 3)}


def opened(home: Path, node_id: int = 1, ports: dict[int, int] | None = None, **options: Any) -> Node:
    members = [Voter(one, bytes(16), HOST, port) for one, port in (ports or {1: 1}).items()]
    voters = VoterSet.of(one for one in members if one.node_id != OBSERVER)
    own = VoterSet.of(members).by_id[node_id]._replace(directory_id=bytes([node_id]) * 16)
    links = None
    if ports:
        identity = LinkIdentity(
            EMPTY.cluster_id, Peer(node_id, own.directory_id), Endpoint(HOST, 9000 + node_id)
        )
        links = LinkSettings(identity, b"a secret of enough bytes", (HOST, ports[node_id]))
    return Node(
        RaftQuorum(
            home / "__cluster_metadata-0",
            options.pop("disk", None) or OsDisk(),
            voter=own,
            configured=voters,
            chance=Random(node_id),
            unique=os.urandom,
            now_ms=lambda: int(time.time() * 1000),
            links=links,
            **options,
        )
    )


def play(nodes: list[Node], scene: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            for node in nodes:
                tasks.create_task(node.quorum.run())
            await scene()
            for node in nodes:
                node.quorum.close()

    asyncio.run(run())


def test_the_voters_progress_is_known_without_waking_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading and node.commits)
        before_ms, wakes = node.quorum.status().voters[0].last_fetch_ms, list[Any]()
        monkeypatch.setattr(
            asyncio.get_running_loop(), "call_soon_threadsafe", lambda *call: wakes.append(call)
        )
        await asyncio.sleep(1.5)
        monkeypatch.undo()

        assert node.quorum.status().voters[0].last_fetch_ms > before_ms
        assert not wakes

    play([node], scene)


def test_an_observer_is_in_the_status_as_soon_as_it_has_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raft_core, "STATUS_SECONDS", 1000.0)
    ports = voter_ports()
    nodes = [opened(tmp_path / str(node_id), node_id, ports) for node_id in ports]
    observer = opened(tmp_path / "observer", OBSERVER, {**ports, OBSERVER: free_port()})

    async def scene() -> None:
        await until(lambda: any(node.leading and node.commits for node in nodes))
        leader = next(node for node in nodes if node.leading)
        assert not leader.quorum.status().observers
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observer.quorum.run())
            await until(lambda: observer.commits)
            await until(lambda: [one.node_id for one in leader.quorum.status().observers] == [OBSERVER], 5)
            observer.quorum.close()

    play(nodes, scene)


def test_a_lone_voter_leads_at_once(tmp_path: Path) -> None:
    taken_s: list[float] = []

    async def scene() -> None:
        began = time.monotonic()
        await until(lambda: node.leading)
        taken_s.append(time.monotonic() - began)

    for name in "abcde":  # several, since a busy machine may delay one of them
        node = opened(tmp_path / name)
        play([node], scene)

    assert min(taken_s) < 0.5


def test_a_lone_voter_leads_and_keeps_its_records(tmp_path: Path) -> None:
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        node.append(setting("a"))
        node.append(setting("b"), setting("c"), at=node.committed_image.version + 2)
        await until(lambda: node.settings == {"a", "b", "c"})

    play([node], scene)
    again = opened(tmp_path)

    async def second_scene() -> None:
        await until(lambda: again.leading)
        assert again.settings == {"a", "b", "c"} and again.quorum.epoch == 2

    play([again], second_scene)
    assert node.loaded.is_empty and not again.loaded.is_empty


def test_a_lone_voter_that_leads_rests_between_batches(tmp_path: Path) -> None:
    """A lone voter has no followers that need heartbeats, and an idle node should use almost no CPU."""
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        core = node.quorum._core
        assert core is not None
        await until(lambda: core._next_tick.when() - core._loop.time() > HEARTBEAT_SECONDS)
        node.append(setting("a"))
        await until(lambda: node.settings == {"a"})

    play([node], scene)


def test_a_leader_shows_its_own_log_end_offset_at_or_above_the_high_watermark(tmp_path: Path) -> None:
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        for number in range(20):
            node.append(setting(f"n{number}"))
            await until(lambda: len(node.settings) == number + 1)  # noqa: B023
            status = node.quorum.status()
            assert [row.log_end_offset >= status.high_watermark for row in status.voters] == [True]

    play([node], scene)


def test_a_log_from_before_the_quorum_is_continued(tmp_path: Path) -> None:
    home = tmp_path / "__cluster_metadata-0"
    home.mkdir()
    old = [MetadataBatch(0, 1, 5, [setting("a")]), MetadataBatch(1, 2, 6, [setting("b"), setting("c")])]
    (home / f"{0:020d}.log").write_bytes(b"".join(encode_batch(batch) for batch in old))
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        assert node.settings == {"a", "b", "c"} and node.quorum.epoch == 3
        assert [voter.voter_id for voter in node.committed_image.voters] == [1]

    play([node], scene)


def test_an_append_to_a_voter_that_does_not_lead_is_rejected(tmp_path: Path) -> None:
    node = opened(tmp_path)
    with pytest.raises(KafkaError) as refused:
        node.append(setting("a"))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER

    async def scene() -> None:
        await until(lambda: node.leading)
        with pytest.raises(KafkaError):
            node.quorum.append(MetadataBatch(node.committed_image.version + 1, 7, 5, [setting("a")]))
        with pytest.raises(KafkaError) as too_large:
            node.append(*(setting(f"n{number}", 30_000) for number in range(1200)))
        assert too_large.value.code is ErrorCode.POLICY_VIOLATION
        node.append(setting("b"))
        await until(lambda: "b" in node.settings)

    play([node], scene)


def test_snapshots_take_the_place_of_the_log_while_it_grows(tmp_path: Path) -> None:
    node = opened(tmp_path, snapshots=SnapshotRule(20_000, 0))
    home = tmp_path / "__cluster_metadata-0"

    async def scene() -> None:
        await until(lambda: node.leading)
        for number in range(300):
            node.append(setting(f"n{number}", 200))
            await until(lambda number=number: f"n{number}" in node.settings)  # type: ignore[misc]
        await until(lambda: list(home.glob("*.checkpoint")))

    play([node], scene)
    again = opened(tmp_path)

    async def second_scene() -> None:
        await until(lambda: again.leading)
        assert len(again.settings) == 300

    play([again], second_scene)
    assert len(list(home.glob("*.checkpoint"))) == 1 and not (home / f"{0:020d}.log").exists()
    assert again.loaded.image.version > 0


@pytest.mark.slow
def test_a_voter_that_was_away_catches_up_in_one_step(tmp_path: Path) -> None:
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        for number in range(200):
            node.append(setting(f"n{number}"))
            await until(lambda number=number: f"n{number}" in node.settings)  # type: ignore[misc]

    play([node], scene)
    again = opened(tmp_path)

    async def second_scene() -> None:
        await until(lambda: again.leading)
        assert again.snapshots == 1 and len(again.settings) == 200

    play([again], second_scene)


def test_a_failed_disk_ends_the_quorum_and_fails_waiting_appends(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    node = opened(tmp_path, disk=disk)

    async def scene() -> None:
        await until(lambda: node.leading)
        disk.fail_at, disk.stays_broken = disk.steps + 1, True
        node.append(setting("a"))
        await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as failed:
        play([node], scene)

    assert failed.value.split(OSError)[0] is not None and node.resigned and not node.quorum.is_leader
    assert node.settings == set()


def test_a_listener_that_raises_ends_the_quorum_and_gets_no_further_calls(tmp_path: Path) -> None:
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        node.raises = True
        node.append(setting("a"))
        node.append(setting("b"), at=node.committed_image.version + 2)
        await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as failed:
        play([node], scene)

    assert failed.value.split(RuntimeError)[0] is not None
    assert node.settings == set()


@pytest.mark.slow
def test_three_voters_continue_without_one_and_accept_it_again(tmp_path: Path) -> None:
    ports = voter_ports()
    homes = {node_id: tmp_path / str(node_id) for node_id in ports}
    for home in homes.values():
        home.mkdir()

    async def append(nodes: list[Node], name: str) -> None:
        """Append on the leader, which may change on a busy machine, until all nodes have it."""

        tried: set[tuple[int, int]] = set()

        def attempt() -> bool:
            for place, node in enumerate(nodes):
                # Once per leader: the record is then being replicated, or fails when that leader resigns.
                if node.leading and name not in node.settings and (place, node.leading) not in tried:
                    tried.add((place, node.leading))
                    with contextlib.suppress(KafkaError):
                        node.append(setting(name))
            return all(name in node.settings for node in nodes)

        async with asyncio.timeout(60):
            while not attempt():
                await asyncio.sleep(0.05)

    async def run() -> None:
        nodes = {node_id: opened(homes[node_id], node_id, ports) for node_id in ports}
        async with asyncio.TaskGroup() as tasks:
            running = {one: tasks.create_task(node.quorum.run()) for one, node in nodes.items()}
            await append(list(nodes.values()), "a")
            first = next(node_id for node_id, node in nodes.items() if node.leading)
            status = nodes[first].quorum.status()
            assert [one.node_id for one in status.voters] == [1, 2, 3]
            assert nodes[first].quorum.endpoint_of(first % 3 + 1) == Endpoint(HOST, 9000 + first % 3 + 1)

            nodes[first].quorum.close()
            await running[first]
            await append([node for node_id, node in nodes.items() if node_id != first], "b")

            nodes[first] = opened(homes[first], first, ports)
            tasks.create_task(nodes[first].quorum.run())
            await until(lambda: nodes[first].settings == {"a", "b"}, 20)
            for node in nodes.values():
                node.quorum.close()

    asyncio.run(run())


class _HeldFile:
    """A file whose syncs block while those of its disk do."""

    def __init__(self, file: DiskFile, is_free: threading.Event) -> None:
        self._file = file
        self._is_free = is_free

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._is_free.wait(30)
        self._file.sync()


class HeldDisk:
    """A real disk whose syncs block while `is_free` is not set."""

    def __init__(self) -> None:
        self._disk = OsDisk()
        self.is_free = threading.Event()
        self.is_free.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: Path, *, create: bool = False, is_private: bool = False) -> Any:
        return _HeldFile(self._disk.open(path, create=create, is_private=is_private), self.is_free)


@pytest.mark.slow
def test_a_leader_whose_disk_hangs_has_resigned_when_another_leads(tmp_path: Path) -> None:
    ports = voter_ports()
    for node_id in ports:
        (tmp_path / str(node_id)).mkdir()

    async def run() -> None:
        disks = {node_id: HeldDisk() for node_id in ports}
        nodes = {
            node_id: opened(tmp_path / str(node_id), node_id, ports, disk=disks[node_id]) for node_id in ports
        }
        async with asyncio.TaskGroup() as tasks:
            for node in nodes.values():
                tasks.create_task(node.quorum.run())
            await until(lambda: any(node.leading for node in nodes.values()))
            first = next(node_id for node_id, node in nodes.items() if node.leading)
            removed = nodes.pop(first)
            disks[first].is_free.clear()
            removed.append(setting("a"))
            try:
                await until(lambda: any(node.leading for node in nodes.values()))
                assert removed.leading and not removed.quorum.is_leader, (
                    "it has resigned by its own clock, without a message"
                )
            finally:
                disks[first].is_free.set()
            await until(lambda: not removed.leading)
            await until(lambda: removed.committed_image.epoch > removed.commits[0].epoch)
            for node in (removed, *nodes.values()):
                node.quorum.close()

    asyncio.run(run())


def test_only_their_owner_can_read_the_metadata_even_in_a_directory_of_an_older_release(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    directory.chmod(0o755)
    node = opened(tmp_path)

    async def scene() -> None:
        await until(lambda: node.leading)
        node.append(setting("a"))
        await until(lambda: node.settings)

    before = os.umask(0)
    try:
        play([node], scene)
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert directory.stat().st_mode & 0o777 == 0o700
    assert len(modes) >= 2 and set(modes.values()) == {0o600}, modes


def test_a_new_leader_counts_each_voter_as_heard_when_it_begins_to_lead(tmp_path: Path) -> None:
    """A new leader counts each voter as heard at the moment when it begins to lead."""
    ports = voter_ports()
    nodes = [opened(tmp_path / str(node_id), node_id, ports) for node_id in ports]
    received: list[list[int]] = []
    for node in nodes:

        def note(epoch: int, node: Node = node) -> None:
            node.leading = epoch
            received.append([row.last_fetch_ms for row in node.quorum.status().voters])

        node.handle_leadership = note  # type: ignore[method-assign]

    async def scene() -> None:
        await until(lambda: received)
        first = next(node for node in nodes if node.leading)
        while len(received) < 2:
            first.quorum.hand_over()
            await asyncio.sleep(0.1)

    play(nodes, scene)

    now_ms = int(time.time() * 1000)
    assert all(now_ms - 60_000 < at_ms <= now_ms for at_ms in received[1])
