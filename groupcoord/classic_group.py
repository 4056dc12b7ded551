"""A classic group: its state, members and counters, and the changes that keep them in step.

The group is the working copy of what its last `GroupMetadataRecord` says. During a rebalance it runs ahead of
the log, and that part is soft state: it becomes durable when a record puts a new generation down, and until
then a restart falls back to the generation before.
"""

from collections.abc import Mapping, Sequence

from groupcoord.classic_member import ClassicMember
from groupcoord.group_records import NO_TIMESTAMP_MS, GroupMetadataRecord, GroupMetadataValue, MemberMetadata
from groupcoord.group_state import MOVES, GroupState
from groupcoord.member_commands import Protocol
from groupcoord.member_results import JoinedMember
from groupcoord.request_token import Token
from groupcoord.timeline import Cause, Event, Timeline
from logstore.errors import ErrorCode, KafkaError

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicGroup:
    """One group; changed by the request modules of this package only."""

    def __init__(self, group_id: str, now_ms: int = NO_TIMESTAMP_MS) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY  # soft: tells an initial rebalance from a later one
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        # What the consumers read, if they are consumers and their metadata is readable; else None.
        self.subscribed_topics: frozenset[str] | None = None
        self.is_recorded = False  # whether the log holds a record of it
        # Soft state.
        self.timeline = Timeline()
        self.pending_join_members: set[str] = set()  # told their id, not come back yet
        self.pending_sync_members: set[str] = (
            set()
        )  # joined this generation, not asked for their assignment yet
        self.new_member_added = False  # while the initial delay ran
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
        """Whether somebody who offers these can join: one of them must be offered by all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(protocol.name, 0) == size for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members offer; the earlier voter's wins a
        tie.
        """
        size = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member that a request names; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance came back
        elsewhere.
        """
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "no member has this group.instance.id")
            if current != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID, "the instance joined again with another member id"
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has no such member")
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its consumers read the topic; also true when they are consumers that cannot be
        understood.
        """
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def members_for_leader(self) -> list[JoinedMember]:
        name = self.protocol_name or ""
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(name))
            for member in self.members.values()
        ]

    def is_hollow(self) -> bool:
        """Whether nothing would be lost with it: no members, nobody on the way, and the log does not know
        it.
        """
        return (
            self.state is GroupState.EMPTY
            and not self.members
            and not self.pending_join_members
            and not self.is_recorded
            and self.generation_id == 0
        )

    def to_record(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataRecord:
        """The group as it stands now, with these assignments, as a record for the log."""
        name = self.protocol_name or ""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(name),
                assignment=assignments[member.member_id],
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=now_ms,
            members=members,
        )
        return GroupMetadataRecord(self.group_id, value)

    # ---- changes -------------------------------------------------------------------------------------------

    def move_to(self, state: GroupState, now_ms: int) -> None:
        assert state in MOVES[self.state], (self.group_id, self.state, state)
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def note(
        self,
        cause: Cause,
        now_ms: int,
        member: ClassicMember | None = None,
        *,
        member_id: str = "",
        reason: str = "",
    ) -> None:
        """Keep in the timeline why the group is about to rebalance, or what else happens while it does."""
        client_id = ""
        if member is not None:
            member_id, client_id = member.member_id, member.client_id
        self.timeline.note(Event(cause, now_ms, member_id, client_id, reason), self.generation_id)

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
        self.pending_join_members.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forget a member or a pending one. The caller has answered what it waited for."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.join_token is not None:
                self.awaiting_join_count -= 1
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.discard(member_id)
        return member

    def rename_static_member(self, group_instance_id: str, new_member_id: str) -> ClassicMember:
        """Give the static member the id of its new incarnation; it keeps place, assignment and leadership."""
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
        """Make sure that the leader is one who has joined; False if nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    def start_generation(self, now_ms: int) -> None:
        """After the join phase: the next generation, with the members that are left, or empty."""
        self.generation_id += 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.move_to(GroupState.EMPTY, now_ms)
        self.read_subscriptions()

    def read_subscriptions(self) -> None:
        """Find out what topics the members read, where that can be told (only offset expiry and deletion
        care).
        """
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

    def load(self, value: GroupMetadataValue) -> None:
        """Become what a record says. Members that the record was made of keep their soft state."""
        self.is_recorded = True
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.state_timestamp_ms = value.current_state_timestamp
        self.generation_id = value.generation
        self.protocol_type = value.protocol_type or ("" if value.members else None)
        self.protocol_name = value.protocol
        recorded_members = {member.member_id: member for member in value.members}
        for member in list(self.members.values()):
            recorded = recorded_members.get(member.member_id)
            if recorded is None or not self._is_as_recorded(member, recorded):
                self.remove(member.member_id)
        for recorded in value.members:
            if recorded.member_id not in self.members:
                self._add_recorded(recorded)
            self.members[recorded.member_id].assignment = recorded.assignment
        # In the record's order, so that votes and elections go the same way after a restart.
        order = dict.fromkeys(member.member_id for member in value.members)
        self.members = {
            member_id: self.members[member_id] for member_id in order if member_id in self.members
        }
        # A log may be anybody's: a leader that is no member, or an instance with two, must not become state
        # here.
        self.leader_id = value.leader if value.leader in self.members else next(iter(self.members), None)
        self.read_subscriptions()

    def _is_as_recorded(self, member: ClassicMember, recorded: MemberMetadata) -> bool:
        """Whether the record was made of this very member; else it is of an older record in the log."""
        offered = Protocol(self.protocol_name or "", recorded.subscription)
        return offered in member.protocols and (
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
        ) == (
            recorded.group_instance_id,
            recorded.client_id,
            recorded.client_host,
            recorded.session_timeout,
            recorded.rebalance_timeout,
        )

    def _add_recorded(self, recorded: MemberMetadata) -> None:
        rebalance_timeout_ms = recorded.rebalance_timeout
        member = ClassicMember(
            member_id=recorded.member_id,
            group_instance_id=recorded.group_instance_id,
            client_id=recorded.client_id,
            client_host=recorded.client_host,
            session_timeout_ms=recorded.session_timeout,
            rebalance_timeout_ms=recorded.session_timeout
            if rebalance_timeout_ms == -1
            else rebalance_timeout_ms,
            protocols=(Protocol(self.protocol_name or "", recorded.subscription),),
            assignment=recorded.assignment,
        )
        if recorded.group_instance_id in self.static_members:
            self.remove(self.static_members[recorded.group_instance_id])
        self.add(member, self.protocol_type or "")

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
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


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics in a consumer's subscription (ConsumerProtocolSubscription), or None if it is not one.

    Layout since version 0: int16 version, int32 count of topics, each an int16 length and UTF-8; what follows
    belongs to later versions. Assignors of our own making may send anything, so bytes that are no
    subscription are no error.
    """
    size = len(metadata)
    if size < 6 or int.from_bytes(metadata[:2], signed=True) < 0:
        return None
    count, position = int.from_bytes(metadata[2:6], signed=True), 6
    if not 0 <= count <= (size - 6) // 2:
        return None
    topics = []
    for _ in range(count):
        end = position + 2
        length = int.from_bytes(metadata[position:end], signed=True)
        if end > size or length < 0 or end + length > size:
            return None
        try:
            topics.append(metadata[end : end + length].decode())
        except UnicodeDecodeError:
            return None
        position = end + length
    return topics
