"""The history of a consumer group's members (KIP-848), with the checks that assignments are consistent.

A member owns a partition from the response that assigns it until the member reports its revocation, leaves,
or hears that it was removed. Until then the coordinator may assign it to no other member, unless the owner's
session has expired or its time to revoke the partition is over.
"""

from typing import Protocol

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.group_history import GroupHistory
from tests.simulation.virtual_loop import SimulationError


class Owner(Protocol):
    """A member, as its history sees it."""

    name: str
    owned: set[TopicPartition]

    @property
    def is_safe_until_s(self) -> float: ...


class ConsumerHistory:
    """The history of one group."""

    def __init__(self, group: str, *, may_lose: bool = False) -> None:
        self.group = group
        self.offsets = GroupHistory(group, may_lose=may_lose)
        self._owners: dict[TopicPartition, Owner] = {}

    def owner(self, partition: TopicPartition) -> Owner | None:
        """Return the member that received the partition last, unless it gave the partition up."""
        owner = self._owners.get(partition)
        return owner if owner is not None and partition in owner.owned else None

    def note_received(self, member: Owner, partition: TopicPartition, now_s: float) -> None:
        """Note that a member received a partition that it did not own, and check that no other owns it."""
        owner = self.owner(partition)
        if owner not in (None, member) and now_s < owner.is_safe_until_s and not self.offsets.may_lose:
            raise SimulationError(
                f"{member.name} receives {partition} of {self.group}, which {owner.name} owns"
                f" until {owner.is_safe_until_s:.3f}"
            )
        self._owners[partition] = member

    def note_committed(
        self, member: Owner, partition: TopicPartition, offset: int, *, owner_then: Owner | None
    ) -> None:
        """Note and check an acknowledged commit; `owner_then` owned the partition when it was sent."""
        if owner_then not in (None, member) and not self.offsets.may_lose:
            raise SimulationError(
                f"{self.group} accepts a commit of {member.name} for {partition}, owned by {owner_then.name}"
            )
        known = self.offsets.of(partition)
        known.highest = max(known.highest, offset)
