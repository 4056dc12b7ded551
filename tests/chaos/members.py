"""A soak test of groups of every client: members join, leave and crash, and nodes fail, as a seed decides."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.group_feed import Feed
from tests.compat.group_fleet import (
    FEED_PAUSE_S,
    KILLED,
    KINDS,
    OVERRIDES,
    PARTITIONS,
    STAYING,
    TOPIC,
    Fleet,
    Group,
    check_at_least_once,
    create_topic,
    leader_of_offsets,
)
from tests.integration.cluster.conftest import Cluster, write_cluster

MAX_MEMBERS = 10
REST_S = (0.0, 3.0)
CHANGES = ("join", "join", "leave", "none")
CRASH_AND_KILL = "crash members and kill coordinator"
FAULTS = ("none", "none", "crash members", "kill coordinator", "kill node", CRASH_AND_KILL)


@dataclass(slots=True)
class SoakOutcome:
    """The result of a soak test, which is passed if `problems` is empty."""

    records: int = 0
    rounds: int = 0
    faults: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # label of a group -> why its client is missing
    problems: list[str] = field(default_factory=list)


def soak(data: Path, *, seed: int, seconds: float) -> SoakOutcome:
    """Run groups of all clients on three nodes, inject faults for `seconds`, and check the result."""
    chance = random.Random(seed)
    data.mkdir(parents=True, exist_ok=True)
    cluster = write_cluster(data, 3, *OVERRIDES)
    cluster.start(0, 1, 2)
    create_topic(cluster)
    fleet = Fleet(KINDS, cluster.bootstrap, data)
    outcome = SoakOutcome(skipped=fleet.skipped)
    try:
        fleet.each(lambda group: group.start(STAYING))
        fleet.each(lambda group: group.settle())
        feed = Feed(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=FEED_PAUSE_S)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _round(cluster, fleet, chance, outcome)
        sent = feed.stop()
        outcome.records = len(sent)
        fleet.each(lambda group: check_at_least_once(cluster, group, sent))
    finally:
        fleet.stop()
        cluster.stop()
    outcome.problems = [f"{one.kind.label}: {one.failure}" for one in fleet.groups if one.failure is not None]
    outcome.problems += [
        f"node {one}: a traceback" for one in (0, 1, 2) if "Traceback" in cluster.output(one)
    ]
    return outcome


def _round(cluster: Cluster, fleet: Fleet, chance: random.Random, outcome: SoakOutcome) -> None:
    """Change the members of each group, inject one fault for all, and wait until all groups settle."""
    outcome.rounds += 1
    for group in fleet.groups:
        _change_members(group, chance)
    fault = chance.choice(FAULTS)
    outcome.faults.append(fault)
    crashed = fleet.clients if fault in ("crash members", CRASH_AND_KILL) else ()
    killed = None
    if fault in ("kill coordinator", CRASH_AND_KILL):
        killed = leader_of_offsets(cluster)
    elif fault == "kill node":
        killed = chance.choice([0, 1, 2])
    time.sleep(chance.uniform(0.0, 0.5))  # in the middle of the rebalances, or after them
    fleet.crash(*crashed)
    if killed is not None:
        cluster.kill(killed)
    fleet.each(lambda group: group.settle())
    if killed is not None:
        cluster.start(killed)
    fleet.replace_crashed(*crashed)
    time.sleep(chance.uniform(*REST_S))


def _change_members(group: Group, chance: random.Random) -> None:
    staying = [name for name, role in group.living.items() if role == STAYING]
    match chance.choice(CHANGES):
        case "join" if len(group.living) < MAX_MEMBERS:
            group.start(chance.choice((STAYING, KILLED)))
        case "leave" if len(staying) > 1:
            group.begin_to_close(chance.choice(staying))
