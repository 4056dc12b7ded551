"""A classic group: its state, members and counters, and the changes that keep them in step.

The group is the working copy of its last `GroupMetadataRecord` (D3). During a rebalance it runs ahead of the
log, and that part is soft state: it becomes durable with the record of a new generation, and a restart before
that falls back to the previous generation.
"""

from collections.abc import Sequence

from ottla.groupcoord.classic.classic_member import ClassicMember
from ottla.groupcoord.classic.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.groupcoord.classic.group_state import MOVES, RECORDED, GroupState
from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.classic.member_results import JoinedMember
from ottla.groupcoord.group_records import NO_TIMESTAMP_MS, GroupMetadataRecord
from ottla.groupcoord.member_bytes import MEMBER_BYTES
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, TxnOffsetCommit
from ottla.groupcoord.request_token import Token
from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.groupcoord.timeline import Cause, Event, Timeline
from ottla.logstore.words.errors import ErrorCode, KafkaError


class ClassicGroup:
    """One classic group; changed by the modules of the requests in this package only."""

    def __init__(
        self, group_id: str, now_ms: int = NO_TIMESTAMP_MS, member_bytes: ShardBytes | None = None
    ) -> None:
        self.group_id = group_id
        # Of all groups of its shard.
        self.member_bytes = member_bytes if member_bytes is not None else ShardBytes()
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY  # soft: distinguishes an initial rebalance from a later one
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        # The topics that the consumers read; None if the members are no consumers or their metadata is not
        # readable.
        self.subscribed_topics: frozenset[str] | None = None
        self.is_recorded = False  # True if the log holds a record of it
        # Soft state.
        self.timeline = Timeline()
        self.pending_join_members: set[str] = set()  # got their member id, did not come back yet
        self.pending_sync_members: set[str] = (
            set()
        )  # joined this generation, did not ask for their assignment yet
        self.new_member_added = False  # during the initial delay
        self.awaiting_join_count = 0
        self._supporters: dict[str, int] = {}  # protocol name -> members that offer it

    # ---- questions -----------------------------------------------------------------------------------------

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def has_all_members_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_join_members

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports_protocols(self, protocol_type: str, protocols: Sequence[Protocol]) -> bool:
        """Return True if a member that offers these can join: all members must offer one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(protocol.name, 0) == size for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members offer.

        Among protocols with equally many votes, the one that got its first vote earliest wins.
        """
        size = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Return the member that a request names.

        KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has its instance id now.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this group.instance.id")
            if current != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    "the member with this group.instance.id joined again and has a new member id",
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no member with this id")
        return member

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"the generation of the group is {self.generation_id}"
            )

    def is_subscribed_to(self, topic: str) -> bool:
        """Return True if the group's consumers read the topic, or if their subscriptions are not readable."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def members_for_leader(self) -> list[JoinedMember]:
        name = self.protocol_name or ""
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    def is_unused(self) -> bool:
        """Return True if nothing is lost with the group: it has no members, pending ones or record."""
        return (
            self.state is GroupState.EMPTY
            and not self.members
            and not self.pending_join_members
            and not self.is_recorded
            and self.generation_id == 0
        )

    # ---- the interface that all kinds of groups share ------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def can_expire(self) -> bool:
        """True if the group has no members, pending ones included: it is removed with its last offset."""
        return self.is_empty and not self.pending_join_members

    def check_commit(
        self, command: OffsetCommit | TxnOffsetCommit, *, is_transactional: bool = False
    ) -> None:
        """Raise an error if the client of this commit may not commit now.

        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS.
        """
        if command.generation_id < 0 and self.is_empty:
            return
        if command.generation_id >= 0 or command.member_id or command.group_instance_id is not None:
            self.validate_member(command.member_id, command.group_instance_id)
            self.check_generation(command.generation_id)
        elif not is_transactional:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "the group has active members, and this client is not one of them",
            )
        if self.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS, "the group is waiting for the assignment of its leader"
            )

    def check_delete_offsets(self) -> None:
        """Raise NON_EMPTY_GROUP if any offset may be in use: the members' subscriptions are not readable."""
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP,
                "the group has active members, and it is not known which topics they read",
            )

    def retained_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return when the retention of an offset began that no member needs; None while it is kept.

        The offset is of a topic that no member reads. The offsets of an empty group are kept together, from
        the time when the last member left.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            if self.state_timestamp_ms == NO_TIMESTAMP_MS:
                return commit_timestamp_ms
            return self.state_timestamp_ms
        is_understood = self.state is GroupState.STABLE and self.subscribed_topics is not None
        return commit_timestamp_ms if is_understood else None

    def tombstones(self) -> list[GroupMetadataRecord]:
        """Return the records that remove the group, without its offsets."""
        return [GroupMetadataRecord(self.group_id, None)]

    # ---- changes -------------------------------------------------------------------------------------------

    def move_to(self, state: GroupState, now_ms: int) -> None:
        assert state in MOVES[self.state], (self.group_id, self.state, state)
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def restore(self, state: GroupState, timestamp_ms: int) -> None:
        """Take over the state of a record, whatever state the group is in."""
        assert state in RECORDED, (self.group_id, state)
        self.state, self.state_timestamp_ms = state, timestamp_ms

    def note(
        self,
        cause: Cause,
        now_ms: int,
        member: ClassicMember | None = None,
        *,
        member_id: str = "",
        reason: str = "",
    ) -> None:
        """Add the cause of a coming rebalance, or an event during one, to the timeline."""
        client_id = ""
        if member is not None:
            member_id, client_id = member.member_id, member.client_id
        self.timeline.note(Event(cause, now_ms, member_id, client_id, reason), self.generation_id)

    def add_pending_member(self, member_id: str) -> None:
        """Add a pending member: the client got this id and should come back with it."""
        self.pending_join_members.add(member_id)
        self.member_bytes.add(MEMBER_BYTES)

    def _remove_pending_member(self, member_id: str) -> None:
        if member_id in self.pending_join_members:
            self.pending_join_members.remove(member_id)
            self.member_bytes.add(-MEMBER_BYTES)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        self.members[member.member_id] = member
        self._count_protocols(member, +1)
        if member.join_token is not None:
            self.awaiting_join_count += 1
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._remove_pending_member(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending one. The caller has answered its waiting requests."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.join_token is not None:
                self.awaiting_join_count -= 1
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._remove_pending_member(member_id)
        self.pending_sync_members.discard(member_id)
        return member

    def rename_static_member(self, group_instance_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member that joined again its new id; its place, assignment and leadership stay."""
        old_member_id = self.static_members[group_instance_id]
        member = self.members[old_member_id]
        member.member_id = new_member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.static_members[group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.discard(old_member_id)
            self.pending_sync_members.add(new_member_id)
        return member

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[Protocol],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, +1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def assign(self, member: ClassicMember, assignment: bytes) -> None:
        """Give the member its assignment; empty for none."""
        self.member_bytes.add(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def wait_for_join(self, member: ClassicMember, token: Token) -> None:
        if member.join_token is None:
            self.awaiting_join_count += 1
        member.join_token = token

    def take_join_token(self, member: ClassicMember) -> Token | None:
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join_count -= 1
        return token

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; return False if none has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    def start_generation(self, now_ms: int) -> None:
        """Start the next generation, with the members that are left after the join phase, or empty."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move_to(GroupState.EMPTY, now_ms)
        self.read_subscriptions()

    def read_subscriptions(self) -> None:
        """Update the topics that the members read, if known. Only expiry and deletion of offsets use them."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self.members and self.protocol_name is None):
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol_name or ""))
            if subscribed is None:
                return
            topics.update(subscribed)
        self.subscribed_topics = frozenset(topics)

    def forget(self) -> None:
        """Release the memory counted for the members: the group is gone."""
        assert GroupState.DEAD in MOVES[self.state], self.group_id
        self.state = GroupState.DEAD
        self.member_bytes.add(-sum(member.size_bytes for member in self.members.values()))
        self.member_bytes.add(-MEMBER_BYTES * len(self.pending_join_members))

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        self.member_bytes.add(change * member.size_bytes)
        for protocol in member.protocols:
            count = self._supporters.get(protocol.name, 0) + change
            if count:
                self._supporters[protocol.name] = count
            else:
                del self._supporters[protocol.name]

    def check_invariants(self) -> None:
        state, members = self.state, self.members
        assert state is not GroupState.DEAD, "a dead group is not kept"
        assert bool(members) == (self.leader_id is not None), (self.group_id, self.leader_id)
        assert self.leader_id is None or self.leader_id in members
        if state is GroupState.EMPTY:
            assert not members and not self.pending_sync_members
        if state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert members and self.protocol_name is not None and self.protocol_type
            assert self.select_protocol()
        if state is not GroupState.PREPARING_REBALANCE:
            assert self.awaiting_join_count == 0
        if state is not GroupState.COMPLETING_REBALANCE:
            assert all(member.sync_token is None for member in members.values())
        if state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert not self.pending_sync_members
        assert self.awaiting_join_count == sum(member.join_token is not None for member in members.values())
        assert self.timeline.is_running == (
            state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
        )
        assert self.pending_sync_members <= members.keys()
        assert not self.pending_join_members & members.keys()
        statics = {
            m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None
        }
        assert statics == self.static_members
        assert all(member_id == member.member_id for member_id, member in members.items())
        supporters: dict[str, int] = {}
        for member in members.values():
            for protocol in member.protocols:
                supporters[protocol.name] = supporters.get(protocol.name, 0) + 1
        assert supporters == self._supporters
