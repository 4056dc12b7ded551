"""The durable quorum of one: nothing answered is lost, nothing damaged is stepped over."""

import asyncio
import errno
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from logstore.disk import MemoryDisk
from logstore.errors import ErrorCode, KafkaError
from metadata_raft.delta import MetadataChanges, replay_batch
from metadata_raft.image import MetadataImage
from metadata_raft.quorum_local import JournalConfig, LocalQuorum
from metadata_raft.record_codec import MetadataBatch
from metadata_raft.records import ConfigRecord, ConfigResourceType, MetadataRecord
from tests.unit.metadata_raft.metadata_world import EMPTY, NOW_MS

ROOT = Path("/data")
DIRECTORY = ROOT / "__cluster_metadata-0"
FIRST_SEGMENT = DIRECTORY / f"{0:020d}.log"


class Node:
    """A listener that counts what it was told."""

    def __init__(
        self, disk: MemoryDisk, *, config: JournalConfig | None = None, now_ms: int = NOW_MS
    ) -> None:
        self.quorum = LocalQuorum(DIRECTORY, disk, node_id=0, config=config)
        loaded = self.quorum.load(EMPTY)
        self.committed_image = self.ahead = loaded.image
        self.cut_bytes = loaded.cut_bytes
        self.resigned = ""
        self.now_ms = now_ms
        self.quorum.attach(self)

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        self.committed_image = image

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        self.committed_image = image

    def handle_leadership(self, epoch: int) -> None:
        assert epoch == self.quorum.epoch

    def handle_resignation(self, detail: str) -> None:
        self.resigned = detail

    def append(self, *records: MetadataRecord) -> None:
        batch = MetadataBatch(self.ahead.version + 1, self.quorum.epoch, self.now_ms, records)
        self.ahead, _ = replay_batch(self.ahead, batch)
        self.quorum.append(batch)


def setting(value: int, size: int = 1) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResourceType.GROUP,
        resource_name="g",
        name=f"n{value}",
        value="v" * size,
    )


def run(node: Node, batches: Sequence[Sequence[MetadataRecord]]) -> None:
    async def scene() -> None:
        for batch in batches:
            node.append(*batch)
        node.quorum.close()
        await node.quorum.run()

    asyncio.run(scene())


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    return disk


def test_a_restart_gives_an_equal_image_and_a_higher_epoch() -> None:
    disk = new_disk()
    node = Node(disk)

    run(node, [[setting(1), setting(2)], [setting(3)]])
    again = Node(disk)

    assert again.committed_image == node.committed_image and again.cut_bytes == 0
    assert (node.quorum.epoch, again.quorum.epoch) == (1, 2)


def test_what_was_answered_survives_a_loss_of_power_at_any_step() -> None:
    batches = [[setting(index), setting(index + 100)] for index in range(4)]
    counted = new_disk()
    run(Node(counted), batches)

    for step in range(1, counted.steps + 1):
        for torn_bytes in (0, 7, 80):
            disk = new_disk()
            disk.fail_at, disk.stays_broken, disk.torn_bytes = step, True, torn_bytes
            answered = -1
            try:
                node = Node(disk)
                try:
                    run(node, batches)
                finally:
                    answered = node.committed_image.version
            except* OSError:
                pass
            disk.repair()
            disk.lose_power(keep_bytes=lambda _path, unsynced: unsynced // 2)

            again = Node(disk)

            assert again.committed_image.version >= answered, f"step {step}"
            assert again.committed_image.version % 2 == 1, "half a batch was replayed"


def test_a_log_cut_at_any_byte_keeps_its_whole_batches() -> None:
    disk = new_disk()
    node = Node(disk)
    run(node, [[setting(1)], [setting(2), setting(3)], [setting(4)]])
    whole = bytes(disk.files[FIRST_SEGMENT].content)
    ends = [0]
    while ends[-1] < len(whole):
        ends.append(ends[-1] + 12 + int.from_bytes(whole[ends[-1] + 8 : ends[-1] + 12], "big"))
    last_offsets = dict(zip(ends, (-1, 0, 2, 3), strict=True))

    for size in range(len(whole) + 1):
        cut = new_disk()
        cut.make_directory(DIRECTORY)
        cut.write_file(FIRST_SEGMENT, whole[:size], sync=True)
        kept = max(end for end in ends if end <= size)

        again = Node(cut)

        assert again.committed_image.version == last_offsets[kept]
        assert again.cut_bytes == size - kept
        assert len(cut.files[FIRST_SEGMENT].content) == kept


def test_appending_goes_on_behind_a_torn_tail() -> None:
    disk = new_disk()
    run(Node(disk), [[setting(1)], [setting(2)]])
    del disk.files[FIRST_SEGMENT].content[-5:]

    run(Node(disk), [[setting(3)]])

    assert set(Node(disk).committed_image.configs.group("g")) == {"n1", "n3"}


def test_a_tail_of_zeros_is_cut_off() -> None:
    """A file system may grow a file before its data are there."""
    disk = new_disk()
    run(Node(disk), [[setting(1)]])
    disk.files[FIRST_SEGMENT].content += bytes(5000)

    assert Node(disk).cut_bytes == 5000


def test_damage_before_the_last_batch_is_named_and_refused() -> None:
    disk = new_disk()
    run(Node(disk), [[setting(1)], [setting(2)], [setting(3)]])
    content = disk.files[FIRST_SEGMENT].content
    second = 12 + int.from_bytes(content[8:12], "big")

    for position in range(second + 8, 2 * second):
        content[position] ^= 0x55
        with pytest.raises(KafkaError) as refused:
            Node(disk)
        content[position] ^= 0x55

        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        # The epoch is outside the CRC: that it is wrong shows in the batch behind it.
        expected = 2 * second if position < second + 16 and position >= second + 12 else second
        assert f"{FIRST_SEGMENT} at position {expected}:" in refused.value.detail


def test_any_bytes_in_the_log_are_cut_or_refused() -> None:
    for seed in range(50):
        disk = new_disk()
        disk.make_directory(DIRECTORY)
        chance = random.Random(seed)
        disk.write_file(FIRST_SEGMENT, chance.randbytes(chance.randrange(400)), sync=True)

        assert Node(disk).committed_image.version == -1


def test_a_missing_segment_is_refused() -> None:
    disk = new_disk()
    run(Node(disk), [[setting(1)], [setting(2)]])
    disk.rename(FIRST_SEGMENT, DIRECTORY / f"{5:020d}.log")

    with pytest.raises(KafkaError, match="offset 0 on are missing"):
        Node(disk)


def test_a_snapshot_takes_the_place_of_old_segments() -> None:
    disk = new_disk()
    node = Node(disk, config=JournalConfig(max_record_bytes_between_snapshots=500))

    run(node, [[setting(index, 40)] for index in range(40)])

    names = disk.list_directory(DIRECTORY)
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    assert len(snapshots) == 1 and FIRST_SEGMENT.name not in names
    assert Node(disk).committed_image == node.committed_image


def test_a_snapshot_is_made_after_a_while_though_little_changed() -> None:
    disk = new_disk()
    config = JournalConfig(max_snapshot_interval_ms=1000)
    node = Node(disk, config=config)
    node.append(setting(1))
    node.now_ms += 1000

    run(node, [[setting(2)]])

    assert any(name.endswith(".checkpoint") for name in disk.list_directory(DIRECTORY))


def test_a_node_that_dies_in_a_snapshot_at_any_step_loses_nothing() -> None:
    config = JournalConfig(max_record_bytes_between_snapshots=300)
    batches = [[setting(index, 40)] for index in range(8)]
    counted = new_disk()
    run(Node(counted, config=config), batches)

    for step in range(1, counted.steps + 1):
        disk = new_disk()
        disk.fail_at, disk.stays_broken, disk.torn_bytes = step, True, 30
        answered = -1
        try:
            node = Node(disk, config=config)
            try:
                run(node, batches)
            finally:
                answered = node.committed_image.version
        except* OSError:
            pass
        disk.repair()
        disk.lose_power()

        again = Node(disk, config=config)

        assert again.committed_image.version >= answered, f"step {step}"
        assert len(again.committed_image.configs.group("g")) == again.committed_image.version + 1


def test_a_damaged_snapshot_is_named_and_refused() -> None:
    disk = new_disk()
    run(
        Node(disk, config=JournalConfig(max_record_bytes_between_snapshots=100)),
        [[setting(index, 40)] for index in range(9)],
    )
    (path,) = [path for path in disk.files if path.suffix == ".checkpoint"]
    content = disk.files[path].content

    for position in range(8, len(content), 13):
        content[position] ^= 0x55
        with pytest.raises(KafkaError, match=path.name) as refused:
            Node(disk)
        content[position] ^= 0x55
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    del content[-10:]
    with pytest.raises(KafkaError, match=path.name):
        Node(disk)


def test_a_disk_that_fails_ends_the_quorum_and_fails_what_waits() -> None:
    disk = new_disk()
    node = Node(disk)
    disk.fail_at, disk.stays_broken, disk.error = disk.steps + 3, True, errno.EIO

    with pytest.raises(ExceptionGroup) as failed:
        run(node, [[setting(1)], [setting(2)]])

    assert isinstance(failed.value.exceptions[0], OSError)
    assert node.resigned and not node.quorum.is_leader
    with pytest.raises(KafkaError) as refused:
        node.append(setting(3))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
