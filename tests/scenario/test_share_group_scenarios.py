"""Scenarios of share groups (KIP-932) in share_groups/*.txt, written as those of consumer groups.

`join`, `heartbeat` and `leave` are heartbeats. The share coordinators answer at once, unless they `hold`
until `release`, or `fail` for a partition until `repair`. `log:` shows the kinds of the records, `state:` the
group's state with its epoch and that of its target.

`REWRITE=1 pytest tests/scenario` writes the results into the scenarios.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.logstore.words.errors import ErrorCode
from tests.scenario.scenario import assert_results, milliseconds, parsed, partition_words
from tests.unit.groupcoord.share.share_world import ShareWorld
from tests.unit.groupcoord.topic_ids import named, partitions_in

SCENARIOS = sorted((Path(__file__).parent / "share_groups").glob("*.txt"))


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config: dict[str, int] = {"group_share_assignment_interval_ms": 0}
        self.topics = {"a": 4, "b": 2}
        self._world: ShareWorld | None = None
        self.epochs: dict[str, int] = {}
        self.log_length = 0
        self.state = ""

    @property
    def world(self) -> ShareWorld:
        if self._world is None:
            self._world = ShareWorld(CoordinatorConfig(**self.config), self.topics)
        return self._world

    def run(self, line: str) -> list[str]:
        verb, names, options = parsed(line)
        results = list(getattr(self, f"do_{verb}")(names, options))
        return [*self.logged(), *results, *self.stated()]

    # ---- members -----------------------------------------------------------------------------------------

    def do_join(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        member, *topics = names
        yield self._heartbeat(member, 0, topics)

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        member, *topics = names
        epoch = int(options.get("epoch", self.epochs.get(member, 0)))
        yield self._heartbeat(member, epoch, topics or None)

    def do_leave(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        yield self._heartbeat(names[0], -1, None)

    def _heartbeat(self, member: str, epoch: int, topics: Sequence[str] | None) -> str:
        answer = self.world.heartbeat(member, epoch, topics, client_id=member)
        if isinstance(answer, Refuse):
            return f"{member}: {answer.error.name}"
        self.epochs[member] = answer.member_epoch
        assigned = partitions_in(answer)
        share = "" if assigned is None else f" has {partition_words(assigned)}"
        return f"{member}: epoch={answer.member_epoch}{share}"

    # ---- administrators ----------------------------------------------------------------------------------

    def do_alter(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        starts: dict[str, dict[int, int]] = {}
        for place, offset in options.items():
            topic, _, number = place.rpartition("-")
            starts.setdefault(topic, {})[int(number)] = int(offset)
        token = self.world.alter(starts)
        answer = self.world.answer(token)
        if answer is None:
            yield "alter waits"
        elif isinstance(answer, Refuse):
            yield f"alter: {answer.error.name}"
        else:
            for topic, errors in self.world.altered(token).items():
                yield from (f"alter {topic}-{number}: {error}" for number, error in errors.items())

    def do_delete_offsets(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        token = self.world.delete_offsets(*names)
        answer = self.world.answer(token)
        if isinstance(answer, Refuse):
            yield f"delete offsets: {answer.error.name}"
        else:
            for topic, error in self.world.deleted_offsets(token).items():
                yield f"delete offsets of {topic}: {error}"

    def do_delete(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        yield f"delete: {self.world.deleted_groups(self.world.delete_groups('g'))['g']}"

    # ---- the world ---------------------------------------------------------------------------------------

    def do_config(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.config |= {name: int(value) for name, value in options.items()}
        yield from ()

    def do_topics(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.set_topics({topic: int(count) for topic, count in options.items()})
        yield from ()

    def do_after(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.groups.advance(milliseconds(names[0]))
        yield from ()

    def do_restart(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.restart()
        yield from ()

    def do_hold(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.holds_jobs = True
        yield from ()

    def do_release(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.holds_jobs = False
        self.world.release_jobs()
        yield from ()

    def do_fail(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        for place in names:
            topic, _, number = place.rpartition("-")
            self.world.persister.fails[topic, int(number)] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        yield from ()

    def do_repair(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.persister.fails.clear()
        yield from ()

    # ---- results -----------------------------------------------------------------------------------------

    def do_members(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        group = self.world.group()
        for member_id, member in sorted(group.members.items()):
            target = partition_words(named(group.targets.get(member_id, {})))
            share = partition_words(named(member.assigned))
            yield f"{member_id}: epoch={member.member_epoch} {share}, target {target}"

    def do_states(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        for stage, topics in self.world.states().items():
            yield f"{stage}: {' '.join(topics) if stage == 'deleting' else partition_words(topics)}"
        for topic, starts in self.world.persister.starts().items():
            yield f"share coordinators: {topic} from {' '.join(map(str, starts.values()))}"

    def logged(self) -> Iterator[str]:
        written = self.world.written(self.log_length)
        if written:
            yield f"log: {written}"
        self.log_length = len(self.world.groups.log)

    def stated(self) -> Iterator[str]:
        group = self.world.groups.coordinator.shard.share_group("g")
        state = "none"
        if group is not None:
            state = f"{group.state.value} {group.group_epoch}/{group.assignment_epoch}"
        if state != self.state:
            yield f"state: {state}"
        self.state = state


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
