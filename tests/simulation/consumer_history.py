"""What the members of a consumer group (KIP-848) were told, and whether that fits together.

A partition is a member's from the answer that gives it until the member says that it gave it up, leaves, or
hears that it is out. Until then nobody else is given it, unless the coordinator did not hear of the member
for its session, or waited in vain for what it should give up.
"""

from typing import Protocol

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.group_history import GroupHistory
from tests.simulation.virtual_loop import SimulationError


class Owner(Protocol):
    """A member, as far as its history goes."""

    name: str
    owned: set[TopicPartition]

    @property
    def is_safe_until_s(self) -> float: ...


class ConsumerHistory:
    """Of one group."""

    def __init__(self, group: str, *, may_lose: bool = False) -> None:
        self.group = group
        self.offsets = GroupHistory(group, may_lose=may_lose)
        self.given_count = 0
        self._owners: dict[TopicPartition, Owner] = {}

    def owner(self, partition: TopicPartition) -> Owner | None:
        """Who was given it last, if that one did not give it up."""
        owner = self._owners.get(partition)
        return owner if owner is not None and partition in owner.owned else None

    def given(self, member: Owner, partition: TopicPartition, now_s: float) -> None:
        """A member was told that it owns a partition that it did not own."""
        owner = self.owner(partition)
        if owner not in (None, member) and now_s < owner.is_safe_until_s and not self.offsets.may_lose:
            raise SimulationError(
                f"{member.name} is given {partition} of {self.group}, which {owner.name} owns"
                f" until {owner.is_safe_until_s:.3f}"
            )
        self.given_count += 1
        self._owners[partition] = member

    def committed(
        self, member: Owner, partition: TopicPartition, offset: int, *, owner_then: Owner | None
    ) -> None:
        """A commit was acknowledged; `owner_then` is whose the partition was when it was sent."""
        if owner_then not in (None, member) and not self.offsets.may_lose:
            raise SimulationError(
                f"{self.group} takes a commit of {member.name} for {partition}, which {owner_then.name} has"
            )
        known = self.offsets.of(partition)
        known.highest = max(known.highest, offset)
