"""Scenarios of groups that change their protocol, in migration/*.txt; `REWRITE=1` renews the results.

    policy NAME | config NAME=NUMBER ...    before any other command
    classic NAME TOPIC ... [instance=I] [cooperative]    a consumer of the classic protocol comes
    consumer NAME TOPIC ... [instance=I]                 one of the consumer protocol (KIP-848) comes
    step NAME ...       each sends its next request, or processes the answer to the last one
    settle              all step in turn until no client has anything to do
    leave NAME | crash NAME | topics NAME=PARTITIONS ... | after SECONDSs | restart | timeline

Results are the kinds of the records (t: a tombstone), a client's partitions when they have changed, the
clients without an answer, and the state of the group with its generation, or with its epoch and that of its
target.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from tests.scenario.scenario import assert_results, milliseconds, parsed
from tests.scenario.timeline_words import in_words
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.consumer.migration_world import ClassicClient, ConsumerClient

SCENARIOS = sorted((Path(__file__).parent / "migration").glob("*.txt"))
AnyClient: TypeAlias = ClassicClient | ConsumerClient


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.config = {"group_consumer_assignment_interval_ms": 0, "group_initial_rebalance_delay_ms": 0}
        self.policy = MigrationPolicy.BIDIRECTIONAL
        self._world: ConsumerWorld | None = None
        self.clients: dict[str, AnyClient] = {}
        self.seen_of: dict[str, str] = {}
        self.log_length = 0
        self.state = ""

    @property
    def world(self) -> ConsumerWorld:
        if self._world is None:
            config = CoordinatorConfig(group_consumer_migration_policy=self.policy, **self.config)  # type: ignore[arg-type]
            self._world = ConsumerWorld(config)
        return self._world

    def run(self, line: str) -> list[str]:
        verb, names, options = parsed(line)
        results = list(getattr(self, f"do_{verb}")(names, options) or ())
        return [*self.logged(), *results, *self.changed(), *self.stated()]

    # ---- events ------------------------------------------------------------------------------------------

    def do_policy(self, names: list[str], options: dict[str, str]) -> None:
        self.policy = MigrationPolicy(names[0])

    def do_config(self, names: list[str], options: dict[str, str]) -> None:
        self.config |= {name: int(value) for name, value in options.items()}

    def do_classic(self, names: list[str], options: dict[str, str]) -> None:
        name, *topics = [word for word in names if word != "cooperative"]
        client = ClassicClient(
            self.world,
            name,
            *topics,
            instance=options.get("instance"),
            is_cooperative="cooperative" in names,
        )
        self._come(client)

    def do_consumer(self, names: list[str], options: dict[str, str]) -> None:
        name, *topics = names
        self._come(ConsumerClient(self.world, name, *topics, instance=options.get("instance")))

    def _come(self, client: AnyClient) -> None:
        self.clients[client.name] = client
        client.step()

    def do_step(self, names: list[str], options: dict[str, str]) -> None:
        for name in names:
            self.clients[name].step()

    def do_settle(self, names: list[str], options: dict[str, str]) -> None:
        for _ in range(10):
            self.world.groups.advance(1)  # timers that are due
            for client in self.clients.values():
                client.step()

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        self.clients.pop(names[0]).leave()

    def do_crash(self, names: list[str], options: dict[str, str]) -> None:
        del self.clients[names[0]]

    def do_topics(self, names: list[str], options: dict[str, str]) -> None:
        self.world.set_topics({name: int(count) for name, count in options.items()})

    def do_after(self, names: list[str], options: dict[str, str]) -> None:
        """Advance the clock; members send their requests meanwhile."""
        left_ms = milliseconds(names[0])
        while left_ms > 0:
            self.world.groups.advance(min(left_ms, 2_000))
            left_ms -= 2_000
            for client in self.clients.values():
                client.step()

    def do_restart(self, names: list[str], options: dict[str, str]) -> None:
        self.world.restart()

    def do_timeline(self, names: list[str], options: dict[str, str]) -> Iterator[str]:
        group = self.world.groups.coordinator.shard.groups["g"]
        yield from map(in_words, group.timeline.last())

    # ---- results -----------------------------------------------------------------------------------------

    def logged(self) -> Iterator[str]:
        if self._world is None:
            return
        written = self.world.written(self.log_length)
        self.log_length = len(self.world.groups.log)
        if written:
            yield f"log: {written}"

    def changed(self) -> Iterator[str]:
        for name, client in self.clients.items():
            if isinstance(client, ClassicClient):
                waits = "joins, " if client.join_token else "syncs, " if client.sync_token else ""
                seen = f"{waits}generation {client.generation}"
            else:
                seen = f"epoch {client.epoch}"
            owned = [f"{topic}-{one}" for topic in sorted(client.owned) for one in client.owned[topic]]
            seen += f", owns {' '.join(owned) or 'nothing'}"
            if self.seen_of.get(name) != seen:
                self.seen_of[name] = seen
                yield f"{name}: {seen}"

    def stated(self) -> Iterator[str]:
        group = None if self._world is None else self.world.groups.coordinator.shard.group("g")
        if group is None:
            return
        if isinstance(group, ClassicGroup):
            state = f"{group.state.value}, classic, generation {group.generation_id}"
        else:
            state = f"{group.state.value}, epoch {group.group_epoch}, target {group.assignment_epoch}"
        if state != self.state:
            self.state = state
            yield f"state: {state}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
