"""A share group (KIP-932): its epochs, members and targets, and its share-partitions that have state.

Only `replay` changes it. A change of members, topics or initialized partitions raises the *group epoch*; the
target made for that epoch makes it the *assignment epoch*, and each member that got its part has it as
*member epoch*. Partitions are shared, so no member waits for another to give one up.

The state of a share-partition is with a share coordinator. The group keeps, for each topic, the partitions
whose state is being *initialized* and those whose state is *initialized*, which alone are assigned; and the
topics whose state is being *deleted*. The log may be compacted: the last record of each key is left, in the
order in which these were written.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, NoReturn

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.groupcoord.share.share_group_state import STATES, ShareGroupState
from ottla.groupcoord.share.share_member import ShareMember, assignment_in_record
from ottla.groupcoord.share.share_records import (
    ShareGroupCurrentMemberAssignmentRecord,
    ShareGroupMemberMetadataRecord,
    ShareGroupMetadataRecord,
    ShareGroupRecord,
    ShareGroupStatePartitionMetadataRecord,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberRecord,
    ShareGroupTargetAssignmentMetadataRecord,
    ShareTopicInfo,
    ShareTopicPartitionsInfo,
)
from ottla.groupcoord.subscribed_topics import SubscribedTopics
from ottla.logstore.words.errors import ErrorCode, KafkaError


class TopicState(NamedTuple):
    """The partitions of a topic that are initialized, or being initialized; the name is of that time."""

    name: str
    partitions: frozenset[int]


class ShareStates(NamedTuple):
    """The share-partitions of a group whose state share coordinators keep, by topic id."""

    initializing: Mapping[bytes, TopicState] = {}
    initialized: Mapping[bytes, TopicState] = {}
    deleting: Mapping[bytes, str] = {}  # the names

    @property
    def topic_ids(self) -> set[bytes]:
        """All topics in any of the three."""
        return {*self.initializing, *self.initialized, *self.deleting}


class ShareGroup:
    """One share group.

    `groups_by_topic` (by topic name) and `groups_by_state` (by id of a topic of which the group has state)
    have the ids of groups, and are kept in step.
    """

    def __init__(
        self,
        group_id: str,
        groups_by_topic: dict[str, set[str]],
        groups_by_state: dict[bytes, set[str]],
        member_bytes: ShardBytes | None = None,
    ) -> None:
        self.group_id = group_id
        # Of all groups of its shard.
        self.member_bytes = member_bytes if member_bytes is not None else ShardBytes()
        # Both begin at 1, as Kafka's: no member is ever at 0, which means that it joins.
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.states: ShareStates | None = None  # None: no record of it
        # Soft state: when the share coordinators last got a request to initialize a topic, for the next try.
        self.initializing_since_ms: dict[bytes, int] = {}
        # Soft state: True if the topics may differ from those in the hash; a group does not know at first.
        self.is_metadata_stale = True
        # Soft state: True if heartbeats without changes have nothing to do until a record or a topic comes.
        self.is_quiet = False
        self.computing_epoch: int | None = None  # soft: for which a thread is making a target
        self.topics = SubscribedTopics(group_id, groups_by_topic)
        self._groups_by_state = groups_by_state

    # ---- questions -----------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def can_expire(self) -> bool:
        """False: a share group stays until it is deleted, as in Kafka."""
        return False

    @property
    def state(self) -> ShareGroupState:
        return STATES[bool(self.members)]

    @property
    def subscribed_topics(self) -> Collection[str]:
        """The names that members want, whether such topics exist or not."""
        return self.topics.names

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics

    def topics_after(self, before: ShareMember | None, after: ShareMember | None) -> set[str]:
        """Return the subscribed names after that change of one member."""
        change: dict[str, int] = {}
        for member, difference in ((before, -1), (after, 1)):
            for name in member.topic_names if member is not None else ():
                change[name] = change.get(name, 0) + difference
        return self.topics.names_after(change)

    def member(self, member_id: str) -> ShareMember:
        """Return the member; UNKNOWN_MEMBER_ID if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def refuse_offsets(self) -> NoReturn:
        """Raise GROUP_ID_NOT_FOUND, as Kafka does for a commit of offsets: a share group has none."""
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def check_delete_offsets(self) -> None:
        self.refuse_offsets()

    def retained_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the start of the retention for an offset, which an older group of this name left."""
        return commit_timestamp_ms

    def tombstones(self) -> list[ShareGroupRecord]:
        """Return the records that remove the group from the log, with all of its members."""
        group_id, members = self.group_id, sorted(self.members)
        records: list[ShareGroupRecord] = []
        records += [ShareGroupCurrentMemberAssignmentRecord(group_id, one, None) for one in members]
        records += [ShareGroupTargetAssignmentMemberRecord(group_id, one, None) for one in members]
        records.append(ShareGroupTargetAssignmentMetadataRecord(group_id, None))
        records += [ShareGroupMemberMetadataRecord(group_id, one, None) for one in members]
        records.append(ShareGroupStatePartitionMetadataRecord(group_id, None))
        records.append(ShareGroupMetadataRecord(group_id, None))
        return records

    def note_initializing(self, topic_ids: Iterable[bytes], now_ms: int) -> None:
        """Note that the persister gets a request to initialize states of these topics now."""
        known: Collection[bytes] = () if self.states is None else self.states.initializing
        self.initializing_since_ms.update(dict.fromkeys((one for one in topic_ids if one in known), now_ms))

    # ---- replay --------------------------------------------------------------------------------------------

    def replay(self, record: ShareGroupRecord) -> None:
        """Apply a record of this group, except its own tombstone: for that the owner calls `forget`."""
        self.is_quiet = False
        match record:
            case ShareGroupMetadataRecord(_, value):
                if value is not None:
                    self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ShareGroupMemberMetadataRecord(_, member_id, value):
                if value is None:
                    self._remove_member(member_id)
                else:
                    self._put_member(self._known_or_new(member_id).with_metadata(value))
            case ShareGroupTargetAssignmentMetadataRecord(_, value):
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ShareGroupTargetAssignmentMemberRecord(_, member_id, value):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = assignment_in_record(value.topic_partitions)
            case ShareGroupCurrentMemberAssignmentRecord(_, member_id, value):
                if value is not None:
                    self._put_member(self._known_or_new(member_id).with_current_assignment(value))
                elif member_id in self.members:
                    member = self.members[member_id]
                    gone = ShareMember(
                        member_id=member_id,
                        rack_id=member.rack_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        topic_names=member.topic_names,
                        member_epoch=-1,
                    )
                    self._put_member(gone)
            case ShareGroupStatePartitionMetadataRecord(_, value):
                self._put_states(None if value is None else _states_in_record(value))

    def forget(self) -> None:
        """Unsubscribe the group, which is gone, from all topics, and release the memory of its members."""
        self.member_bytes.add(-sum(member.size_bytes for member in self.members.values()))
        self.topics.forget()
        self._put_states(None)

    def _known_or_new(self, member_id: str) -> ShareMember:
        return self.members.get(member_id) or ShareMember(member_id=member_id)

    def _put_member(self, member: ShareMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count_member(member, 1)
        if before is not None:
            self._count_member(before, -1)

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        if member is not None:
            self._count_member(member, -1)

    def _count_member(self, member: ShareMember, difference: int) -> None:
        self.topics.add(member.topic_names, difference)
        self.member_bytes.add(difference * member.size_bytes)

    def _put_states(self, states: ShareStates | None) -> None:
        known = set() if self.states is None else self.states.topic_ids
        after = set() if states is None else states.topic_ids
        self.states = states
        for topic_id in after - known:
            self._groups_by_state.setdefault(topic_id, set()).add(self.group_id)
        for topic_id in known - after:
            groups = self._groups_by_state.get(topic_id, set())
            groups.discard(self.group_id)
            if not groups:
                self._groups_by_state.pop(topic_id, None)
        initializing: Collection[bytes] = () if states is None else states.initializing
        for topic_id in self.initializing_since_ms.keys() - set(initializing):
            del self.initializing_since_ms[topic_id]

    # ---- invariants ----------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands of a live shard."""
        fresh = ShareGroup(self.group_id, {}, {})
        for member_id, member in self.members.items():
            assert member_id == member.member_id
            assert member.state is MemberState.STABLE, member
            assert member.member_epoch <= max(self.assignment_epoch, 0), (member, self.assignment_epoch)
            assert all(member.assigned.values()), member
            fresh._put_member(member)
        assert self.assignment_epoch <= self.group_epoch
        assert self.targets.keys() <= self.members.keys(), self.targets.keys() - self.members.keys()
        assert fresh.topics.counts == self.topics.counts
        self.topics.check_invariants()
        states = self.states or ShareStates()
        assert all(self.group_id in self._groups_by_state[topic_id] for topic_id in states.topic_ids)
        assert not states.initialized.keys() & states.deleting.keys()
        for topic_id in states.initializing.keys() & states.initialized.keys():
            being, done = states.initializing[topic_id], states.initialized[topic_id]
            assert being.partitions, (topic_id, being, done)
        assert self.initializing_since_ms.keys() <= states.initializing.keys()


def states_record(group_id: str, states: ShareStates) -> ShareGroupStatePartitionMetadataRecord:
    """Return the record of the share-partitions of a group that have state."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_listed_states(states.initializing.items()),
        initialized_topics=_listed_states(states.initialized.items()),
        deleting_topics=[
            ShareTopicInfo(topic_id=topic_id, topic_name=name)
            for topic_id, name in sorted(states.deleting.items())
        ],
    )
    return ShareGroupStatePartitionMetadataRecord(group_id, value)


def _listed_states(topics: Iterable[tuple[bytes, TopicState]]) -> list[ShareTopicPartitionsInfo]:
    return [
        ShareTopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, (name, partitions) in sorted(topics)
    ]


def _states_in_record(value: ShareGroupStatePartitionMetadataValue) -> ShareStates:
    return ShareStates(
        initializing=_topic_states(value.initializing_topics),
        initialized=_topic_states(value.initialized_topics),
        deleting={topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _topic_states(topics: Iterable[ShareTopicPartitionsInfo]) -> dict[bytes, TopicState]:
    return {topic.topic_id: TopicState(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
