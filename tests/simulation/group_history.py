"""What the members of groups were told, and whether that fits together.

A generation has one assignment, in which a partition belongs to one member. Commits of its members are what
moves a group's offsets, and only upwards: a member that owns a partition begins where the group is and goes
on from there, so whoever finds less has lost a commit or been overtaken by an older member.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.virtual_loop import SimulationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What a member was given in a generation, by whose deal."""

    generation_id: int
    member_id: str
    deal: str
    partitions: Sequence[TopicPartition]


@dataclass(slots=True)
class MemberOffsets:
    """Of one partition: what was shown or acknowledged at the highest, and what may have been committed."""

    highest: int = -1
    attempted: set[int] = field(default_factory=lambda: {-1})


class GroupHistory:
    """Of one group that has members."""

    def __init__(self, group: str, *, may_lose: bool = False) -> None:
        self.group = group
        self.may_lose = may_lose
        self.generation_id = -1  # the latest that a member has its assignment of
        self.offsets: dict[TopicPartition, MemberOffsets] = {}
        self._deals: dict[int, str] = {}
        self._owners: dict[tuple[int, TopicPartition], str] = {}

    def of(self, partition: TopicPartition) -> MemberOffsets:
        return self.offsets.setdefault(partition, MemberOffsets())

    def joined(self, owned: Ownership) -> None:
        """A member was told what it owns."""
        if self.may_lose:
            return
        generation_id = owned.generation_id
        deal = self._deals.setdefault(generation_id, owned.deal)
        if deal != owned.deal:
            raise SimulationError(
                f"group {self.group} has two assignments in generation {generation_id}: {deal}, {owned.deal}"
            )
        for partition in owned.partitions:
            owner = self._owners.setdefault((generation_id, partition), owned.member_id)
            if owner != owned.member_id:
                raise SimulationError(
                    f"{owner} and {owned.member_id} both own {partition} in generation {generation_id}"
                )
        self.generation_id = max(self.generation_id, generation_id)

    def found(
        self, partition: TopicPartition, offset: int, *, at_least: int, generation_id: int | None = None
    ) -> None:
        """A member of the latest generation (or None: somebody at the end) looked where the group is.

        `at_least` is what was known when it asked.
        """
        offsets = self.of(partition)
        if self.may_lose:
            return
        is_late = generation_id is not None and generation_id < self.generation_id
        if offset not in offsets.attempted or (offset < at_least and not is_late):
            raise SimulationError(
                f"group {self.group} is at {offset} in {partition}, and was at {at_least}"
                f" (generation {generation_id}, the latest is {self.generation_id})"
            )
        offsets.highest = max(offset, offsets.highest)

    def committed(
        self, partition: TopicPartition, offset: int, *, generation_id: int, latest_then: int
    ) -> None:
        """A commit was acknowledged; `latest_then` is the latest generation when it was sent."""
        if self.may_lose:
            return
        if generation_id < latest_then:
            raise SimulationError(
                f"group {self.group} takes a commit of generation {generation_id} in {latest_then}"
            )
        offsets = self.of(partition)
        offsets.highest = max(offset, offsets.highest)
