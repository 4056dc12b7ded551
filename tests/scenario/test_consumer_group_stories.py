"""Scenarios of consumer groups (KIP-848) in consumer_groups/*.txt, written as those of classic groups.

`join`, `beat` and `leave` are heartbeats; a member reports with `beat` the partitions that it was assigned,
or with `keeps` also those that it has to give up. `log:` shows the kinds of the records, `state:` the group's
state with its epoch and that of its target.

`REWRITE=1 pytest tests/scenario` writes the results into the scenarios.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from tests.scenario.story import assert_told
from tests.scenario.timeline_words import in_words
from tests.unit.groupcoord.consumer.consumer_world import REBALANCE_MS, ConsumerWorld, owned_of

STORIES = sorted((Path(__file__).parent / "consumer_groups").glob("*.txt"))
Owned = Mapping[str, Sequence[int]]


class Client:
    def __init__(self) -> None:
        self.epoch = 0
        self.instance: str | None = None
        self.owned: Owned = {}  # it works on these
        self.told: Owned = {}  # it is to own these


class Teller:
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

    def tell(self, line: str) -> list[str]:
        verb, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        told = list(getattr(self, f"do_{verb}")(names, options))
        return [*self.logged(), *told, *self.stated()]

    # ---- clients -----------------------------------------------------------------------------------------

    def do_join(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        who, *topics = names
        client = self.clients[who] = Client()
        client.instance = options.get("instance")
        expression = options.get("expression")
        yield self._beat(
            who,
            0,
            names=topics if topics or expression is None else None,
            regex=expression,
            assignor=options.get("assignor"),
            owned={},
            rebalance_ms=int(options.get("rebalance_ms", REBALANCE_MS)),
        )

    def do_beat(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        who, *words = names
        client = self.clients.setdefault(who, Client())
        if "keeps" not in words:
            client.owned = client.told
        how: dict[str, object] = {}
        if "reads" in options:
            how["names"] = options["reads"].split(",")
        if "expression" in options:
            how["regex"] = options["expression"]
        epoch = int(options.get("epoch", client.epoch))
        yield self._beat(who, epoch, owned=client.owned, **how)

    def do_leave(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        who, *words = names
        yield self._beat(who, -2 if "for-a-while" in words else -1)

    def _beat(self, who: str, epoch: int, **how: object) -> str:
        client = self.clients.setdefault(who, Client())
        answer = self.world.beat(
            who,
            epoch,
            instance=client.instance,
            client_id=who,
            **how,  # type: ignore[arg-type]
        )
        if isinstance(answer, Refuse):
            return f"{who}: {answer.error.name}"
        return f"{who}: {self._heard(client, answer)}"

    def _heard(self, client: Client, answer: ConsumerGroupHeartbeatResult) -> str:
        client.epoch = answer.member_epoch
        told = owned_of(answer)
        if told is None:
            return f"epoch={answer.member_epoch}"
        client.told = told
        client.owned = {
            topic: sorted({*client.owned.get(topic, ()), *told.get(topic, ())})
            for topic in {**client.owned, **told}
        }
        return f"epoch={answer.member_epoch} shall own {partitions(told)}"

    def do_commit(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        (who,) = names
        epoch = int(options.pop("epoch", self.clients[who].epoch))
        token = self.world.groups.token()
        places = [(place.rpartition("-"), int(offset)) for place, offset in options.items()]
        answer = self.world.groups.ask(
            OffsetCommit(
                token=token,
                group_id="g",
                generation_id=epoch,
                member_id=who,
                offsets=[OffsetToCommit(topic, int(number), offset) for (topic, _, number), offset in places],
            )
        )
        yield f"{who}: commit {answer.error.name if isinstance(answer, Refuse) else 'ok'}"

    # ---- the world ---------------------------------------------------------------------------------------

    def do_config(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.config |= {name: int(value) for name, value in options.items()}
        yield from ()

    def do_topics(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.set_topics({topic: int(count) for topic, count in options.items()})
        yield from ()

    def do_after(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.groups.advance(int(float(names[0].removesuffix("s")) * 1000))
        yield from ()

    def do_restart(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.restart()
        yield from ()

    def do_hold(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        """Tasks for a thread take their time, until `release`."""
        self.world.holds_tasks = True
        yield from ()

    def do_release(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        self.world.release_tasks()
        yield from ()

    # ---- results -----------------------------------------------------------------------------------------

    def do_members(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        group = self.world.group()
        for member_id, member in sorted(group.members.items()):
            target = partitions(self.world.named(group.targets.get(member_id, {})))
            owns = partitions(self.world.named(member.assigned))
            gives = partitions(self.world.named(member.pending_revocation))
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


def partitions(owned: Owned) -> str:
    return " ".join(f"{topic}-{number}" for topic in sorted(owned) for number in sorted(owned[topic])) or "-"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    assert_told(path, Teller().tell)
