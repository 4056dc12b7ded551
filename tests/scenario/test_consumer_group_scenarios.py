"""Scenarios of consumer groups (KIP-848) in consumer_groups/*.txt, written as those of classic groups.

`join`, `heartbeat` and `leave` are heartbeats. A member reports with `heartbeat` the partitions that it was
assigned, or with `keeps` also those that it has to give up. `log:` shows the kinds of the records, `state:`
the group's state with its epoch and that of its target.

`REWRITE=1 pytest tests/scenario` writes the results into the scenarios.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from tests.scenario.scenario import assert_results, milliseconds, parsed, partition_words
from tests.scenario.timeline_words import in_words
from tests.unit.groupcoord.consumer.consumer_world import REBALANCE_MS, ConsumerWorld
from tests.unit.groupcoord.topic_ids import named, partitions_in

SCENARIOS = sorted((Path(__file__).parent / "consumer_groups").glob("*.txt"))
Owned = Mapping[str, Sequence[int]]


class Client:
    def __init__(self) -> None:
        self.epoch = 0
        self.instance: str | None = None
        self.owned: Owned = {}  # it works on these
        self.assigned: Owned = {}  # it is to own these


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config: dict[str, int] = {"group_consumer_assignment_interval_ms": 0}
        self.topics = {"a": 4, "b": 2}
        self._world: ConsumerWorld | None = None
        self.clients: dict[str, Client] = {}
        self.log_length = 0
        self.state = ""

    @property
    def world(self) -> ConsumerWorld:
        if self._world is None:
            self._world = ConsumerWorld(CoordinatorConfig(**self.config), self.topics)
        return self._world

    def run(self, line: str) -> list[str]:
        verb, names, options = parsed(line)
        results = list(getattr(self, f"do_{verb}")(names, options))
        return [*self.logged(), *results, *self.stated()]

    # ---- clients -----------------------------------------------------------------------------------------

    def do_join(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        member, *topics = names
        client = self.clients[member] = Client()
        client.instance = options.get("instance")
        expression = options.get("expression")
        yield self._heartbeat(
            member,
            0,
            names=topics if topics or expression is None else None,
            regex=expression,
            assignor=options.get("assignor"),
            owned={},
            rebalance_ms=int(options.get("rebalance_ms", REBALANCE_MS)),
        )

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        member, *words = names
        client = self.clients.setdefault(member, Client())
        if "keeps" not in words:
            client.owned = client.assigned
        fields: dict[str, object] = {}
        if "reads" in options:
            fields["names"] = options["reads"].split(",")
        if "expression" in options:
            fields["regex"] = options["expression"]
        epoch = int(options.get("epoch", client.epoch))
        yield self._heartbeat(member, epoch, owned=client.owned, **fields)

    def do_leave(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        member, *words = names
        yield self._heartbeat(member, -2 if "for-a-while" in words else -1)

    def _heartbeat(self, member: str, epoch: int, **fields: object) -> str:
        client = self.clients.setdefault(member, Client())
        answer = self.world.heartbeat(
            member,
            epoch,
            instance=client.instance,
            client_id=member,
            **fields,  # type: ignore[arg-type]
        )
        if isinstance(answer, Refuse):
            return f"{member}: {answer.error.name}"
        return f"{member}: {self._receive(client, answer)}"

    def _receive(self, client: Client, answer: ConsumerGroupHeartbeatResult) -> str:
        client.epoch = answer.member_epoch
        assigned = partitions_in(answer)
        if assigned is None:
            return f"epoch={answer.member_epoch}"
        client.assigned = assigned
        client.owned = {
            topic: sorted({*client.owned.get(topic, ()), *assigned.get(topic, ())})
            for topic in {**client.owned, **assigned}
        }
        return f"epoch={answer.member_epoch} shall own {partition_words(assigned)}"

    def do_commit(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        (member,) = names
        epoch = int(options.pop("epoch", self.clients[member].epoch))
        token = self.world.groups.token()
        places = [(place.rpartition("-"), int(offset)) for place, offset in options.items()]
        answer = self.world.groups.ask(
            OffsetCommit(
                token=token,
                group_id="g",
                generation_id=epoch,
                member_id=member,
                offsets=[OffsetToCommit(topic, int(number), offset) for (topic, _, number), offset in places],
            )
        )
        yield f"{member}: commit {answer.error.name if isinstance(answer, Refuse) else 'ok'}"

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
        """Hold back the tasks for a thread until `release`."""
        self.world.holds_tasks = True
        yield from ()

    def do_release(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.release_tasks()
        yield from ()

    # ---- results -----------------------------------------------------------------------------------------

    def do_members(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        group = self.world.group()
        for member_id, member in sorted(group.members.items()):
            target = partition_words(named(group.targets.get(member_id, {})))
            owns = partition_words(named(member.assigned))
            gives = partition_words(named(member.pending_revocation))
            owns += f" gives up {gives}" if member.pending_revocation else ""
            yield f"{member_id}: {member.state.name} epoch={member.member_epoch} {owns}, target {target}"

    def do_timeline(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        yield from (f"    {in_words(each)}" for each in self.world.group().timeline.last())

    def logged(self) -> Iterator[str]:
        written = self.world.written(self.log_length)
        if written:
            yield f"log: {written}"
        self.log_length = len(self.world.groups.log)

    def stated(self) -> Iterator[str]:
        group = self.world.groups.coordinator.shard.consumer_group("g")
        state = "none"
        if group is not None:
            state = f"{group.state.value} {group.group_epoch}/{group.assignment_epoch}"
        if state != self.state:
            yield f"state: {state}"
        self.state = state


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
