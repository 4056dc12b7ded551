"""A member of a share group: its identity, its subscription, its partitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.groupcoord.assignment import Assignment, listed
from ottla.groupcoord.consumer.member_state import MemberState, member_state_of
from ottla.groupcoord.member_bytes import MEMBER_BYTES, NAME_BYTES
from ottla.groupcoord.share.share_records import (
    ShareGroupCurrentMemberAssignmentRecord,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataRecord,
    ShareGroupMemberMetadataValue,
    ShareTopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member as in the log. It gives partitions up without steps, so it is always stable."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its subscription; its assignment is bounded by existing partitions."""
        return MEMBER_BYTES + NAME_BYTES * len(self.topic_names) + sum(map(len, self.topic_names))

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return True if the member has its part of the target of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    # ---- records -------------------------------------------------------------------------------------------

    def metadata_record(self, group_id: str) -> ShareGroupMemberMetadataRecord:
        value = ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
        )
        return ShareGroupMemberMetadataRecord(group_id, self.member_id, value)

    def current_assignment_record(self, group_id: str) -> ShareGroupCurrentMemberAssignmentRecord:
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state.value,
            assigned_partitions=listed_for_record(self.assigned),
        )
        return ShareGroupCurrentMemberAssignmentRecord(group_id, self.member_id, value)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def with_current_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=member_state_of(value.state),
            assigned=assignment_in_record(value.assigned_partitions),
        )


def listed_for_record(assigned: Assignment) -> list[ShareTopicPartitions]:
    """Return the partitions as records and responses have them."""
    return [
        ShareTopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in listed(assigned)
    ]


def assignment_in_record(topics: Sequence[ShareTopicPartitions]) -> Assignment:
    """Return the partitions that a record lists."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}
