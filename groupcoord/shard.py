"""The state of one shard: the groups and offsets of one partition of `__consumer_offsets`.

The request modules decide over it; `replay` is what the log does to it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from groupcoord.classic_group import ClassicGroup
from groupcoord.classic_group_record import load_classic_group
from groupcoord.coordinator_config import MAX_GROUPS_PER_SHARD, CoordinatorConfig
from groupcoord.effects import Append
from groupcoord.group_records import GroupMetadataRecord, OffsetRecord
from groupcoord.group_state import GroupState
from groupcoord.offset_commands import Producer
from groupcoord.offset_store import OffsetStore
from groupcoord.offset_values import pack_offset_value
from groupcoord.pending_offsets import OffsetKey, PendingOffsets
from groupcoord.record_codec import GroupRecord, record_size_bytes
from logstore.errors import ErrorCode, KafkaError

Group: TypeAlias = ClassicGroup


class Shard:
    """Groups and offsets of one partition. `new_uuid` gives the unique part of a member id."""

    def __init__(self, config: CoordinatorConfig, new_uuid: Callable[[], str]) -> None:
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        self.expiry_queue: list[
            str
        ] = []  # soft: the groups that this round of the offset expiry has still to visit

    def group(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The group, if there is one and it is of the classic protocol."""
        return self.groups.get(group_id)

    def create_group(self, group_id: str, now_ms: int) -> ClassicGroup:
        """A new empty group; soft until a record of it, or an offset, is replayed."""
        if len(self.groups) >= MAX_GROUPS_PER_SHARD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this partition holds too many groups")
        group = self.groups[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def drop_if_hollow(self, group: ClassicGroup) -> None:
        """Forget a group that nobody joined in the end, so that failing clients leave nothing behind."""
        if not group.is_hollow() or self.offsets.has_any(group.group_id):
            return
        if not self.pending.keys_of(group.group_id):
            self.groups.pop(group.group_id, None)

    def has_offset(self, key: OffsetKey) -> bool:
        """Whether there is an offset, committed or pending."""
        return self.pending.has(key) or key.partition in self.offsets.topics_of(key.group_id).get(
            key.topic, ()
        )

    def offset_tombstones(self, group_id: str) -> list[OffsetRecord]:
        """Records that remove all offsets of a group, committed and pending."""
        keys = {
            OffsetKey(group_id, topic, partition): None
            for topic, partitions in self.offsets.topics_of(group_id).items()
            for partition in partitions
        }
        keys.update(dict.fromkeys(self.pending.keys_of(group_id)))
        return [OffsetRecord(*key, None) for key in keys]

    def replay(self, record: GroupRecord, *, producer: Producer | None = None) -> None:
        """The one place where durable state changes, now and after a restart."""
        match record:
            case OffsetRecord():
                self._replay_offset(record, producer)
            case GroupMetadataRecord(group_id, None):
                group = self.groups.pop(group_id, None)
                if group is not None:
                    group.state = GroupState.DEAD
                self.keep_group_of_offsets(group_id)
            case GroupMetadataRecord(group_id, value):
                assert value is not None
                load_classic_group(self.groups.setdefault(group_id, ClassicGroup(group_id)), value)

    def _replay_offset(self, record: OffsetRecord, producer: Producer | None) -> None:
        key = OffsetKey(record.group_id, record.topic, record.partition)
        if record.value is None:
            self.offsets.remove(*key)
            self.pending.remove(key)
            return
        value = pack_offset_value(record.value)
        if producer is None:
            self.offsets.put(*key, value)
            self.pending.beat(key)
        else:
            self.pending.put(producer.producer_id, key, value)
        self.keep_group_of_offsets(record.group_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """What the marker of a transaction does to the state, as after a restart."""
        for key, value in self.pending.end(producer_id, committed=committed):
            self.offsets.put(*key, value)

    def keep_group_of_offsets(self, group_id: str) -> None:
        """Whoever commits without ever joining has a group all the same, one without a protocol type.

        Where there are offsets there is a group, in whatever order records come: else nobody would ever see
        the offsets expire.
        """
        if group_id not in self.groups and (self.offsets.has_any(group_id) or self.pending.keys_of(group_id)):
            self.groups[group_id] = ClassicGroup(group_id)

    def check_invariants(self) -> None:
        assert all(group_id in self.groups for group_id in self.offsets.groups())
        self.pending.check_invariants()
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            group.check_invariants()
        self.offsets.check_invariants()


def check_group_id(group_id: str) -> None:
    """A group that has members must have a name; offsets alone may live under the empty one, as in old
    Kafkas.
    """
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def appends(records: Sequence[GroupRecord], max_batch_bytes: int) -> Iterator[Append]:
    """The records as batches that the log takes; each is atomic, all together are not."""
    batch: list[GroupRecord] = []
    size = 0
    for record in records:
        record_bytes = record_size_bytes(record)
        if batch and size + record_bytes > max_batch_bytes:
            yield Append(batch)
            batch, size = [], 0
        batch.append(record)
        size += record_bytes
    if batch:
        yield Append(batch)
