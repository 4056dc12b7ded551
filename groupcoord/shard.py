"""The state of one shard: the groups and offsets of one partition of `__consumer_offsets`.

The modules of requests decide over it; `replay` applies the records of the log to it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import load_classic_group
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_records import ConsumerGroupMetadataRecord, ConsumerGroupRecord
from ottla.groupcoord.coordinator_config import (
    MAX_GROUPS_PER_SHARD,
    CoordinatorConfig,
    GroupConfig,
    default_group_config,
)
from ottla.groupcoord.effects import Append
from ottla.groupcoord.group_records import GroupMetadataRecord, OffsetRecord
from ottla.groupcoord.held_heartbeats import HeldHeartbeats
from ottla.groupcoord.member_bytes import MEMBER_BYTES
from ottla.groupcoord.offsets.offset_bytes import (
    OFFSET_BYTES,
    PENDING_BYTES,
    TOPIC_BYTES,
    check_offsets,
    have_room,
)
from ottla.groupcoord.offsets.offset_commands import Producer
from ottla.groupcoord.offsets.offset_store import OffsetStore
from ottla.groupcoord.offsets.offset_values import CommittedOffsets, pack_offset_value
from ottla.groupcoord.offsets.pending_offsets import OffsetKey, PendingOffsets
from ottla.groupcoord.recent_topics import RecentTopics
from ottla.groupcoord.record_codec import AppendedRecord, GroupRecord, record_size_bytes
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.groupcoord.share.share_group import ShareGroup
from ottla.groupcoord.share.share_records import ShareGroupMetadataRecord, ShareGroupRecord
from ottla.groupcoord.topics_view import ListedTopics, TopicsView
from ottla.logstore.words.errors import ErrorCode, KafkaError

Group: TypeAlias = ClassicGroup | ConsumerGroup | ShareGroup


class GroupShard:
    """The groups and offsets of one partition.

    `new_uuid` gives the unique part of a member id; `group_config` the settings of one group.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        new_uuid: Callable[[], str],
        group_config: Callable[[str], GroupConfig] | None = None,
    ) -> None:
        self.config = config
        self.new_uuid = new_uuid
        defaults = default_group_config(config)
        self.group_config = group_config or (lambda group_id: defaults)
        self.topics: TopicsView = ListedTopics()
        self.newest_topics_version = 0  # of the metadata in which a topic was created last
        self.recent_topics = RecentTopics()  # soft
        self.groups_by_topic: dict[str, set[str]] = {}  # consumer and share groups by subscribed topic
        self.groups_by_share_state: dict[bytes, set[str]] = {}  # share groups by the topics of their state
        self.awaiting_persister: set[Token] = set()  # soft: requests that wait for the share coordinators
        self._share_jobs = 0  # soft: the number of jobs sent to the share coordinators
        self.share_rebalances = 0  # soft: the number of times that a share group's epoch rose
        self.held_heartbeats = HeldHeartbeats()  # soft
        self.resolving: set[str] = set()  # soft: groups whose expressions a thread is matching
        self.groups: dict[str, Group] = {}
        self.member_bytes = ShardBytes()
        self.has_room: Callable[[], bool] = lambda: True  # True if this node has memory for more groups
        self.offset_bytes = ShardBytes()
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        self.expiry_queue: list[
            str
        ] = []  # soft: the groups that this round of the offset expiry has yet to visit

    def group(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """Return the group if there is one and it is of the classic protocol."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the group if there is one and it is of the consumer protocol."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def share_group(self, group_id: str) -> ShareGroup | None:
        """Return the group if there is one and it is a share group."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def next_share_job(self) -> int:
        """Return a number for the next job of the share coordinators."""
        self._share_jobs += 1
        return self._share_jobs

    def check_new_group(self) -> None:
        """Raise COORDINATOR_NOT_AVAILABLE if there is no room for one more group."""
        if len(self.groups) >= MAX_GROUPS_PER_SHARD:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "this partition of __consumer_offsets has too many groups: delete groups that are not used",
            )
        if not self.has_room():
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "groups use all the memory that the broker reserves for them: raise its "
                "ottla.memory.max.bytes, or delete groups that are not used",
            )

    def create_group(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Return a new empty group; it is soft until a record of it, or an offset, is replayed."""
        self.check_new_group()
        group = self.groups[group_id] = ClassicGroup(group_id, now_ms, self.member_bytes)
        return group

    def drop_if_unused(self, group: ClassicGroup) -> None:
        """Forget a group whose joins all failed, so that failing clients leave nothing behind (D5)."""
        if not group.is_unused() or self.offsets.has_any(group.group_id):
            return
        if not self.pending.keys_of(group.group_id):
            self.groups.pop(group.group_id, None)

    def has_offset(self, key: OffsetKey) -> bool:
        """Return True if the group has an offset of the partition, committed or pending."""
        return self.pending.has(key) or key.partition in self.offsets.topics_of(key.group_id).get(
            key.topic, ()
        )

    def check_offsets(self, commits: Sequence[CommittedOffsets], *, is_transactional: bool) -> None:
        """Raise COORDINATOR_NOT_AVAILABLE if there is no memory for what these commits add to the offsets."""
        each_bytes = OFFSET_BYTES + PENDING_BYTES if is_transactional else OFFSET_BYTES
        most_bytes = TOPIC_BYTES * len(commits)
        for one in commits:
            most_bytes += each_bytes * len(one.values) + sum(map(len, one.values))
        if have_room(self.offset_bytes, most_bytes):
            return
        more_bytes, is_new = 0, False
        for group_id, topic, partitions, values in commits:
            known = self.offsets.topics_of(group_id).get(topic, {})
            for partition, value in dict(zip(partitions, values, strict=True)).items():
                before = known.get(partition)
                more_bytes += len(value) - len(before) if before is not None else OFFSET_BYTES + len(value)
                is_new = is_new or before is None
                if is_transactional and not self.pending.has(OffsetKey(group_id, topic, partition)):
                    more_bytes += PENDING_BYTES
        check_offsets(self.offset_bytes, more_bytes, is_new=is_new)

    def count_offsets(self) -> None:
        """Update the count of the node by the bytes that the offsets take now."""
        self.offset_bytes.add(self.offsets.size_bytes + self.pending.size_bytes - self.offset_bytes.total)

    def offset_tombstones(self, group_id: str) -> list[OffsetRecord]:
        """Return the records that remove all offsets of a group, committed and pending."""
        keys = {
            OffsetKey(group_id, topic, partition): None
            for topic, partitions in self.offsets.topics_of(group_id).items()
            for partition in partitions
        }
        keys.update(dict.fromkeys(self.pending.keys_of(group_id)))
        return [OffsetRecord(*key, None) for key in keys]

    def replay(self, record: AppendedRecord, *, producer: Producer | None = None) -> None:
        """Apply a record to the state: the one place where durable state changes, now and after a restart."""
        match record:
            case CommittedOffsets():
                self._replay_commit(record, producer)
            case OffsetRecord():
                self._replay_offset(record, producer)
            case GroupMetadataRecord(group_id, None):
                group = self.classic_group(group_id)
                if group is not None:
                    del self.groups[group_id]
                    group.forget()
                self.keep_group_of_offsets(group_id)
            case GroupMetadataRecord(group_id, value):
                assert value is not None
                group = self.classic_group(group_id)
                if group is None:
                    self._drop_modern_group(group_id)
                    group = self.groups[group_id] = ClassicGroup(group_id, member_bytes=self.member_bytes)
                load_classic_group(group, value)
            case _:
                if isinstance(record, ShareGroupRecord):
                    self._replay_share(record)
                else:
                    self._replay_consumer(record)

    def _replay_consumer(self, record: ConsumerGroupRecord) -> None:
        """Apply a record of a consumer group, which makes the group if there is none.

        It takes the place of a classic group: our own log has a tombstone of that before, unless only offsets
        made it. A tombstone of a group or a part that is not there changes nothing.
        """
        group = self.consumer_group(record.group_id)
        if record.value is not None:
            if group is None:
                self._forget_other_kind(record.group_id)
                group = ConsumerGroup(record.group_id, self.groups_by_topic, self.member_bytes)
                self.groups[record.group_id] = group
            group.replay(record)
        elif isinstance(record, ConsumerGroupMetadataRecord):
            if group is not None:
                self._drop_modern_group(record.group_id)
            self.keep_group_of_offsets(record.group_id)
        elif group is not None:
            group.replay(record)

    def _replay_share(self, record: ShareGroupRecord) -> None:
        """Apply a record of a share group, by the rules of `_replay_consumer`."""
        group = self.share_group(record.group_id)
        if record.value is not None:
            if group is None:
                self._forget_other_kind(record.group_id)
                group = ShareGroup(
                    record.group_id, self.groups_by_topic, self.groups_by_share_state, self.member_bytes
                )
                self.groups[record.group_id] = group
            group.replay(record)
        elif isinstance(record, ShareGroupMetadataRecord):
            if group is not None:
                self._drop_modern_group(record.group_id)
            self.keep_group_of_offsets(record.group_id)
        elif group is not None:
            group.replay(record)

    def _forget_other_kind(self, group_id: str) -> None:
        """Forget the group that has this id, since another kind of group has it now."""
        classic = self.classic_group(group_id)
        if classic is not None:
            classic.forget()
        self._drop_modern_group(group_id)

    def _drop_modern_group(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup | ShareGroup):
            group.forget()
            del self.groups[group_id]

    def _replay_commit(self, commit: CommittedOffsets, producer: Producer | None) -> None:
        group_id, topic, partitions, values = commit
        if producer is None:
            self.offsets.put_all(group_id, topic, partitions, values)
        if producer is not None or self.pending:
            for partition, value in zip(partitions, values, strict=True):
                key = OffsetKey(group_id, topic, partition)
                if producer is None:
                    self.pending.supersede(key)
                else:
                    self.pending.put(producer.producer_id, key, value)
        self.count_offsets()
        self.keep_group_of_offsets(group_id)

    def _replay_offset(self, record: OffsetRecord, producer: Producer | None) -> None:
        key = OffsetKey(record.group_id, record.topic, record.partition)
        if record.value is None:
            self.offsets.remove(*key)
            self.pending.remove(key)
            self.count_offsets()
            return
        value = pack_offset_value(record.value)
        if producer is None:
            self.offsets.put(*key, value)
            self.pending.supersede(key)
        else:
            self.pending.put(producer.producer_id, key, value)
        self.count_offsets()
        self.keep_group_of_offsets(record.group_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the marker of a transaction to the state, as after a restart."""
        for key, value in self.pending.end(producer_id, committed=committed):
            self.offsets.put(*key, value)
        self.count_offsets()

    def keep_group_of_offsets(self, group_id: str) -> None:
        """Make a classic group without a protocol type for offsets whose group has never had a member.

        Where there are offsets there is a group, in whatever order records come (D13): otherwise the offsets
        would never expire.
        """
        if group_id not in self.groups and (self.offsets.has_any(group_id) or self.pending.keys_of(group_id)):
            self.groups[group_id] = ClassicGroup(group_id, member_bytes=self.member_bytes)

    def check_invariants(self) -> None:
        assert all(group_id in self.groups for group_id in self.offsets.groups())
        classic = [group for group in self.groups.values() if isinstance(group, ClassicGroup)]
        consumer = [group for group in self.groups.values() if isinstance(group, ConsumerGroup)]
        shared = [group for group in self.groups.values() if isinstance(group, ShareGroup)]
        assert self.member_bytes.total == (
            sum(member.size_bytes for group in classic for member in group.members.values())
            + MEMBER_BYTES * sum(len(group.pending_join_members) for group in classic)
            + sum(member.size_bytes for group in consumer for member in group.members.values())
            + sum(member.size_bytes for group in shared for member in group.members.values())
        )
        assert self.offset_bytes.total == self.offsets.size_bytes + self.pending.size_bytes
        self.pending.check_invariants()
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            group.check_invariants()
        for topic, group_ids in self.groups_by_topic.items():
            for group_id in group_ids:
                reader = self.groups[group_id]
                assert isinstance(reader, ConsumerGroup | ShareGroup), (topic, group_id)
                assert reader.is_subscribed_to(topic), (topic, group_id)
        for topic_id, group_ids in self.groups_by_share_state.items():
            for group_id in group_ids:
                holder = self.share_group(group_id)
                assert holder is not None and holder.states is not None, (topic_id, group_id)
                assert topic_id in holder.states.topic_ids, (topic_id, group_id)
        self.offsets.check_invariants()


def check_group_id(group_id: str) -> None:
    """Raise INVALID_GROUP_ID for the empty id: it may have offsets only, as in old Kafkas, and no members."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def appends(records: Sequence[GroupRecord], max_batch_bytes: int) -> Iterator[Append[GroupRecord]]:
    """Yield the records as batches that the log takes; each is atomic, all together are not."""
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
