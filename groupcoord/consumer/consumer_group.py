"""A consumer group (KIP-848): its epochs, members, targets and expressions, as in its records.

Only `replay` changes it; decisions make new members and records, and see the group changed after these were
replayed. Three numbers follow each other: a change of members or topics raises the *group epoch*; the target
made for that epoch makes it the *assignment epoch*; and each member that has given up what the target takes
from it gets it as *member epoch*.

The log may be compacted: the last record of each key is left, in the order in which these were written. So
replay takes keys in any order, and tombstones of keys that are not there (D13).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from ottla.groupcoord.consumer.consumer_commands import ExpireConsumerSession
from ottla.groupcoord.consumer.consumer_group_state import STATES, ConsumerGroupState, Facts
from ottla.groupcoord.consumer.consumer_member import ClassicPart, ConsumerMember
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupPartitionMetadataRecord,
    ConsumerGroupRecord,
    ConsumerGroupRegularExpressionRecord,
    ConsumerGroupTargetAssignmentMemberRecord,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataRecord,
)
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.consumer.reconciliation import NO_OWNER
from ottla.groupcoord.coordinator_config import GroupConfig
from ottla.groupcoord.effects import StartTimer
from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.groupcoord.subscribed_topics import SubscribedTopics
from ottla.groupcoord.timeline import Timeline
from ottla.logstore.words.errors import ErrorCode, KafkaError

_NO_EPOCHS: Mapping[int, int] = {}


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched, the version of the metadata, and when matching began."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class UnchangedAnswer(NamedTuple):
    """The answer to a heartbeat that changes nothing, for one member and one set of settings."""

    member: ConsumerMember
    config: GroupConfig
    session: StartTimer[ExpireConsumerSession]
    result: ConsumerGroupHeartbeatResult


class ConsumerGroup:
    """One consumer group. `groups_by_topic` (topic -> ids of the groups that subscribe to it) is kept in
    step.
    """

    def __init__(
        self,
        group_id: str,
        groups_by_topic: dict[str, set[str]],
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
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False  # a record of kind 4, from before 4.1
        # Soft state: True if the topics may differ from those in the hash; a group does not know at first.
        self.is_metadata_stale = True
        self.changed_topics: set[str] = set()  # its topics that changed since, as far as known
        # Soft state: when a thread last began to match its expressions, even without a result.
        self.resolving_since_ms: int | None = None
        self.resolving_cpu_ms = 0  # soft: the CPU time of that
        # Soft state: expressions that took too much, and when they were tried.
        self.given_up_regexes: dict[str, int] = {}
        # Soft state: classic members that have to join again; a timer runs for each.
        self.awaited_joins: set[str] = set()
        # Soft state: the heartbeat interval last given to each member whose heartbeats may be held.
        self.sent_heartbeat_intervals_ms: dict[str, int] = {}
        self.unchanged_answers: dict[str, UnchangedAnswer] = {}  # soft: by member, as last made
        self.computing_epoch: int | None = None  # for which a thread is making a target
        self.timeline = Timeline()
        # Counters over members and expressions, so that a heartbeat need not look at all of them.
        self._topics = SubscribedTopics(group_id, groups_by_topic)
        self._regex_members: dict[str, int] = {}
        self._assignor_votes: dict[str, int] = {}
        self._stable_members: dict[int, int] = {}  # epoch -> members at it with nothing to wait for
        self._classic_count = 0
        self._classic_protocols: dict[str, int] = {}
        self._owner_epochs: dict[bytes, dict[int, int]] = {}

    # ---- questions -----------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def can_expire(self) -> bool:
        """True if the group is removed with its last offset."""
        return not self.members

    def check_delete_offsets(self) -> None:
        """Raise no error: the topics that members read are known, so offsets of others may be deleted."""

    def retained_since_ms(self, commit_timestamp_ms: int) -> int:
        """Return the start of the retention for an offset of a topic that no member reads."""
        return commit_timestamp_ms

    @property
    def state(self) -> ConsumerGroupState:
        has_target = bool(self.members) and self.group_epoch <= self.assignment_epoch
        is_reconciled = has_target and self._stable_members.get(self.assignment_epoch, 0) == len(self.members)
        return STATES[Facts(bool(self.members), has_target, is_reconciled)]

    @property
    def is_settled(self) -> bool:
        """True if no member has anything to do."""
        return self.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE)

    def end_rebalance(self, now_ms: int) -> None:
        """Close the timeline's entry if its rebalance is over."""
        if self.timeline.is_running and self.is_settled:
            self.timeline.end(now_ms, self.group_epoch, len(self.members))

    @property
    def subscribed_topics(self) -> Collection[str]:
        """The names that members or resolved expressions want, whether such topics exist or not."""
        return self._topics.names

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._topics

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the member that owns the partition or is giving it up; `NO_OWNER` for none."""
        return self._owner_epochs.get(topic_id, _NO_EPOCHS).get(partition, NO_OWNER)

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has this instance id, even if it has left to come back; None if none has."""
        return None if instance_id is None else self.members.get(self.static_members.get(instance_id, ""))

    def member_of(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return the member that a request names.

        KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has its instance id now.
        """
        if instance_id is None:
            return self.member(member_id)
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """Return the target of the member; for a static one, that of the member with its instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, {})

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names that a member wants; an unresolved expression adds none."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def regex_member_count(self, regex: str) -> int:
        return self._regex_members.get(regex, 0)

    @property
    def subscribed_regexes(self) -> Collection[str]:
        return self._regex_members.keys()

    def topics_after(
        self,
        leaving: Iterable[ConsumerMember],
        joining: Iterable[ConsumerMember],
        regexes: Mapping[str, frozenset[str] | None] = {},
    ) -> set[str]:
        """Return the subscribed names after these changes of members and expressions (None: dropped)."""
        change: dict[str, int] = {}
        for member in leaving:
            _count(change, member.topic_names, -1)
        for member in joining:
            _count(change, member.topic_names, 1)
        for regex, resolved in regexes.items():
            if regex in self.regexes:
                _count(change, self.regexes[regex].topics, -1)
            _count(change, resolved or (), 1)
        return self._topics.names_after(change)

    def preferred_assignor(
        self, assignors: Sequence[str], before: ConsumerMember | None, after: ConsumerMember | None
    ) -> str:
        """Return the assignor that most members ask for; the one configured first wins ties (D18)."""
        votes = dict(self._assignor_votes)
        for member, difference in ((before, -1), (after, 1)):
            if member is not None and member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + difference
        return max(assignors, key=lambda name: votes.get(name, 0))  # max takes the first of equals

    def has_classic_members_only(self, except_: Collection[str]) -> bool:
        """Return True if all members but these (all of them members) use the classic protocol."""
        classic_leaving = sum(self.members[one].classic is not None for one in except_ if one in self.members)
        return self._classic_count - classic_leaving == len(self.members) - len(except_)

    def supports_classic(self, protocol_type: str, protocols: Collection[str]) -> bool:
        """Return True if a member that offers these can join: all classic members have to share one."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        return any(self._classic_protocols.get(name, 0) == self._classic_count for name in protocols)

    def waits_for_unreleased(self, member: ConsumerMember) -> bool:
        """Return True if others still own partitions of the member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, ())
            and self.owner_epoch(topic_id, partition) != NO_OWNER
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def tombstones(self, renamed: Mapping[str, str] = {}) -> list[ConsumerGroupRecord]:
        """Return the records that remove the group from the log, with all members.

        Members in `renamed` are removed under the ids that they are about to have.
        """
        group_id = self.group_id
        records: list[ConsumerGroupRecord] = []
        members = sorted(renamed.get(one, one) for one in self.members)
        records += [ConsumerGroupCurrentMemberAssignmentRecord(group_id, one, None) for one in members]
        records += [ConsumerGroupTargetAssignmentMemberRecord(group_id, one, None) for one in members]
        records.append(ConsumerGroupTargetAssignmentMetadataRecord(group_id, None))
        records += [ConsumerGroupMemberMetadataRecord(group_id, one, None) for one in members]
        records += [
            ConsumerGroupRegularExpressionRecord(group_id, regex, None) for regex in sorted(self.regexes)
        ]
        records.append(ConsumerGroupPartitionMetadataRecord(group_id, None))  # even if there was none
        records.append(ConsumerGroupMetadataRecord(group_id, None))
        return records

    # ---- replay --------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Apply a record of this group, except its own tombstone: for that the owner calls `forget`."""
        match record:
            case ConsumerGroupMetadataRecord(_, value):
                if value is not None:
                    self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupPartitionMetadataRecord(_, value):
                self.has_partition_metadata = value is not None
            case ConsumerGroupMemberMetadataRecord(_, member_id, value):
                if value is None:
                    self._remove_member(member_id)
                else:
                    self._put_member(self._known_or_new(member_id).with_metadata(value))
            case ConsumerGroupTargetAssignmentMetadataRecord(_, value):
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMemberRecord(_, member_id, value):
                if value is None:
                    self.targets.pop(member_id, None)
                else:
                    self.targets[member_id] = _target_from_record(value)
            case ConsumerGroupCurrentMemberAssignmentRecord(_, member_id, value):
                if value is not None:
                    self._put_member(self._known_or_new(member_id).with_current_assignment(value))
                elif member_id in self.members:
                    member = self.members[member_id]
                    self._put_member(
                        member.at_epoch(-1, state=MemberState.STABLE, assigned={}, pending_revocation={})
                    )
            case ConsumerGroupRegularExpressionRecord(_, regex, value):
                before = self.regexes.pop(regex, None)
                if value is not None:
                    self.regexes[regex] = ResolvedRegex(
                        frozenset(value.topics), value.version, value.timestamp
                    )
                    self._topics.add(self.regexes[regex].topics, 1)
                if before is not None:
                    self._topics.add(before.topics, -1)

    def forget(self) -> None:
        """Unsubscribe the group, which is gone, from all topics, and release the memory of its members."""
        self.member_bytes.add(-sum(member.size_bytes for member in self.members.values()))
        self._topics.forget()

    def _known_or_new(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id=member_id)

    def _put_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count_member(member, 1, before)
        if before is not None:
            self._count_member(before, -1, member)
        if before is None or (before.member_epoch, before.assigned, before.pending_revocation) != (
            member.member_epoch,
            member.assigned,
            member.pending_revocation,
        ):
            if before is not None:
                self._release(before)
            self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.classic is None:
            self.awaited_joins.discard(member.member_id)

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        self.awaited_joins.discard(member_id)
        self.sent_heartbeat_intervals_ms.pop(member_id, None)
        self.unchanged_answers.pop(member_id, None)
        if member is None:
            return
        self._count_member(member, -1, None)
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _count_member(self, member: ConsumerMember, difference: int, other: ConsumerMember | None) -> None:
        """Count a member that came or went, except what it shares with `other`, its other version."""
        names_differ = other is None or member.topic_names != other.topic_names
        if names_differ:
            self._topics.add(member.topic_names, difference)
        if names_differ or other is None or _size_fields(member) != _size_fields(other):
            self.member_bytes.add(difference * member.size_bytes)
        if member.topic_regex:
            _count(self._regex_members, (member.topic_regex,), difference)
        if member.server_assignor is not None:
            _count(self._assignor_votes, (member.server_assignor,), difference)
        if member.state is MemberState.STABLE:
            epoch_count = self._stable_members.get(member.member_epoch, 0) + difference
            if epoch_count:
                self._stable_members[member.member_epoch] = epoch_count
            else:
                del self._stable_members[member.member_epoch]
        if member.classic is not None:
            self._classic_count += difference
            names = {protocol.name for protocol in member.classic.protocols}
            _count(self._classic_protocols, names, difference)

    def _own(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self._owner_epochs.setdefault(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition, NO_OWNER - 2) < member.member_epoch:
                        epochs[partition] = member.member_epoch

    def _release(self, member: ConsumerMember) -> None:
        """Remove a member's ownership of its partitions, except of those that have a newer owner."""
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self._owner_epochs.get(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition) == member.member_epoch:
                        del epochs[partition]
                if not epochs:
                    self._owner_epochs.pop(topic_id, None)

    # ---- invariants ----------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two commands of a live shard."""
        fresh = ConsumerGroup(self.group_id, {})
        fresh.regexes = self.regexes
        for resolved in self.regexes.values():
            fresh._topics.add(resolved.topics, 1)
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, member in self.members.items():
            assert member_id == member.member_id
            fresh._put_member(member)
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    assert partitions, (member_id, topic_id)
                    for partition in partitions:
                        other = owners.setdefault((topic_id, partition), member_id)
                        assert other == member_id, (other, member_id, topic_id, partition)
            assert member.member_epoch <= max(self.assignment_epoch, 0), (member, self.assignment_epoch)
            for partitions in member.assigned.values():
                assert max(partitions.values()) <= max(member.member_epoch, 0), member
        assert self.assignment_epoch <= self.group_epoch
        assert self.targets.keys() <= self.members.keys(), self.targets.keys() - self.members.keys()
        assert fresh._topics.counts == self._topics.counts
        assert fresh._regex_members == self._regex_members
        assert fresh._assignor_votes == self._assignor_votes
        assert fresh._stable_members == self._stable_members
        assert fresh._classic_count == self._classic_count
        assert fresh._classic_protocols == self._classic_protocols
        assert fresh._owner_epochs == self._owner_epochs
        assert fresh.static_members == self.static_members
        self._topics.check_invariants()
        assert self.regexes.keys() <= self._regex_members.keys(), "an expression outlived its subscribers"
        assert all(self.members[one].classic is not None for one in self.awaited_joins)


def _size_fields(member: ConsumerMember) -> tuple[str, ClassicPart | None]:
    """Return the fields on which `size_bytes` depends, beside the topic names."""
    return member.topic_regex, member.classic


def _count(counts: dict[str, int], names: Iterable[str], difference: int) -> None:
    for name in names:
        count = counts.get(name, 0) + difference
        if count:
            counts[name] = count
        else:
            counts.pop(name, None)


def _target_from_record(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return {
        topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions
    }
