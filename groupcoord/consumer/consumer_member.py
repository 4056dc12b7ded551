"""One member of a consumer group: its identity, its subscription, its partitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ottla.groupcoord.assignment import Assignment, OwnedEpochs, without_epochs
from ottla.groupcoord.classic.member_commands import Protocol
from ottla.groupcoord.consumer.consumer_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentRecord,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)
from ottla.groupcoord.consumer.member_state import MemberState, member_state_of
from ottla.groupcoord.member_bytes import MEMBER_BYTES, NAME_BYTES

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicPart:
    """The additional fields of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member as in the log. A static member that has left to come back has the epoch -2."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""  # empty: none
    classic: ClassicPart | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedEpochs = field(default_factory=dict)
    pending_revocation: OwnedEpochs = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its subscription and metadata; existing partitions bound its assignment."""
        names = self.topic_names
        offered = () if self.classic is None else self.classic.protocols
        return (
            MEMBER_BYTES
            + NAME_BYTES * len(names)
            + sum(map(len, names))
            + len(self.topic_regex)
            + sum(len(protocol.name) + len(protocol.metadata) for protocol in offered)
        )

    @property
    def held(self) -> Assignment:
        """The partitions that it may be working on, including those that it has not given up yet."""
        held: dict[bytes, frozenset[int]] = dict(without_epochs(self.assigned))
        for topic_id, partitions in self.pending_revocation.items():
            held[topic_id] = held.get(topic_id, frozenset()) | partitions.keys()
        return held

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(self, member_epoch: int, **changes: object) -> "ConsumerMember":
        """Return the member at that epoch; it remembers its previous epoch, in case an answer was lost."""
        return replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            **changes,  # type: ignore[arg-type]
        )

    # ---- records -------------------------------------------------------------------------------------------

    def metadata_record(self, group_id: str) -> ConsumerGroupMemberMetadataRecord:
        classic = None
        if self.classic is not None:
            classic = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.classic.protocols
                ],
            )
        value = ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=classic,
        )
        return ConsumerGroupMemberMetadataRecord(group_id, self.member_id, value)

    def current_assignment_record(self, group_id: str) -> ConsumerGroupCurrentMemberAssignmentRecord:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state.value,
            assigned_partitions=_to_record(self.assigned),
            partitions_pending_revocation=_to_record(self.pending_revocation),
        )
        return ConsumerGroupCurrentMemberAssignmentRecord(group_id, self.member_id, value)

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        classic = None
        if value.classic_member_metadata is not None:
            classic = ClassicPart(
                session_timeout_ms=value.classic_member_metadata.session_timeout_ms,
                protocols=tuple(
                    Protocol(protocol.name, protocol.metadata)
                    for protocol in value.classic_member_metadata.supported_protocols
                ),
            )
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            classic=classic,
        )

    def with_current_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=member_state_of(value.state),
            assigned=_from_record(value.assigned_partitions, value.member_epoch),
            pending_revocation=_from_record(value.partitions_pending_revocation, value.member_epoch),
        )


def _to_record(owned: OwnedEpochs) -> list[CurrentTopicPartitions]:
    topics = []
    for topic_id in sorted(owned):
        partitions = sorted(owned[topic_id])
        epochs = [owned[topic_id][partition] for partition in partitions]
        topics.append(
            CurrentTopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs)
        )
    return topics


def _from_record(topics: Sequence[CurrentTopicPartitions], member_epoch: int) -> OwnedEpochs:
    """Return partitions with their epochs; records from before 4.3 have none, and get the member's own."""
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        if topic.partitions:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
