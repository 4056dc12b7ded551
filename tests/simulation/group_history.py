"""The history of a classic group's members, with the checks that the coordinator's answers are consistent.

A generation has one assignment, in which each partition belongs to one member. Only commits of members change
the group's offsets, and only upwards: a member starts at the committed offset of a partition that it owns. If
it finds a lower one than was known, a commit was lost or overtaken by that of an older member.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.virtual_loop import SimulationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The partitions of a member in a generation, with the id of the assignment."""

    generation_id: int
    member_id: str
    assignment_id: str
    partitions: Sequence[TopicPartition]


@dataclass(slots=True)
class MemberOffsets:
    """The offsets of one partition: the highest that was seen or acknowledged, and all attempted ones."""

    highest: int = -1
    attempted: set[int] = field(default_factory=lambda: {-1})


class GroupHistory:
    """The history of one group with members."""

    def __init__(self, group: str, *, may_lose: bool = False) -> None:
        self.group = group
        self.may_lose = may_lose
        self.generation_id = -1  # the latest of which a member received its assignment
        self.offsets: dict[TopicPartition, MemberOffsets] = {}
        self._assignment_ids: dict[int, str] = {}
        self._owners: dict[tuple[int, TopicPartition], str] = {}

    def of(self, partition: TopicPartition) -> MemberOffsets:
        return self.offsets.setdefault(partition, MemberOffsets())

    def note_joined(self, owned: Ownership) -> None:
        """Note and check an assignment that a member received."""
        if self.may_lose:
            return
        generation_id = owned.generation_id
        known = self._assignment_ids.setdefault(generation_id, owned.assignment_id)
        if known != owned.assignment_id:
            raise SimulationError(
                f"group {self.group} has two assignments in generation {generation_id}:"
                f" {known}, {owned.assignment_id}"
            )
        for partition in owned.partitions:
            owner = self._owners.setdefault((generation_id, partition), owned.member_id)
            if owner != owned.member_id:
                raise SimulationError(
                    f"{owner} and {owned.member_id} both own {partition} in generation {generation_id}"
                )
        self.generation_id = max(self.generation_id, generation_id)

    def check_fetched(
        self, partition: TopicPartition, offset: int, *, at_least: int, generation_id: int | None = None
    ) -> None:
        """Check a committed offset that a member fetched, or with None a client at the end of the run.

        `at_least` is the highest offset known when the request was sent. A member of an older generation may
        see less.
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

    def note_committed(
        self, partition: TopicPartition, offset: int, *, generation_id: int, latest_then: int
    ) -> None:
        """Note an acknowledged commit; `latest_then` is the latest generation when it was sent."""
        if self.may_lose:
            return
        if generation_id < latest_then:
            raise SimulationError(
                f"group {self.group} accepts a commit of generation {generation_id} in {latest_then}"
            )
        offsets = self.of(partition)
        offsets.highest = max(offset, offsets.highest)
