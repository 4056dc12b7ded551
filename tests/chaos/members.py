"""A long run of groups of every client: members come, go and crash, and nodes fail, as a seed decides."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.group_feed import Feed
from tests.compat.group_fleet import (
    DYING,
    FEED_PAUSE_S,
    KINDS,
    OVERRIDES,
    PARTITIONS,
    STAYING,
    TOPIC,
    Fleet,
    Group,
    create_topic,
    judge_at_least_once,
    leader_of_offsets,
)
from tests.integration.cluster.conftest import Cluster, written

MAX_MEMBERS = 10
REST_S = (0.0, 3.0)
ACTS = ("come", "come", "go", "stay")
FAULTS = ("none", "none", "crash members", "kill coordinator", "kill node", "kill all of these")


@dataclass(slots=True)
class Soak:
    """The result of a soak test, which is passed if `problems` is empty."""

    records: int = 0
    rounds: int = 0
    faults: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # label of a group -> why its client is missing
    problems: list[str] = field(default_factory=list)


def soak(data: Path, *, seed: int, seconds: float) -> Soak:
    """Run groups of all clients on three nodes, inject faults for `seconds`, and check the result."""
    chance = random.Random(seed)
    data.mkdir(parents=True, exist_ok=True)
    cluster = written(data, 3, *OVERRIDES)
    cluster.start(0, 1, 2)
    create_topic(cluster)
    fleet = Fleet(KINDS, cluster.bootstrap, data)
    soaked = Soak(skipped=fleet.skipped)
    try:
        fleet.each(lambda group: group.start(STAYING))
        fleet.each(lambda group: group.settle())
        feed = Feed(cluster.bootstrap, TOPIC, PARTITIONS, pause_s=FEED_PAUSE_S)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _round(cluster, fleet, chance, soaked)
        sent = feed.stop()
        soaked.records = len(sent)
        fleet.each(lambda group: judge_at_least_once(cluster, group, sent))
    finally:
        fleet.stop()
        cluster.stop()
    soaked.problems = [f"{one.kind.label}: {one.failure}" for one in fleet.groups if one.failure is not None]
    soaked.problems += [f"node {one}: a traceback" for one in (0, 1, 2) if "Traceback" in cluster.output(one)]
    return soaked


def _round(cluster: Cluster, fleet: Fleet, chance: random.Random, soaked: Soak) -> None:
    """Change the members of each group, inject one fault for all, and wait until all groups settle."""
    soaked.rounds += 1
    for group in fleet.groups:
        _change_members(group, chance)
    fault = chance.choice(FAULTS)
    soaked.faults.append(fault)
    crashed = fleet.clients if fault in ("crash members", "kill all of these") else ()
    killed = None
    if fault in ("kill coordinator", "kill all of these"):
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
    match chance.choice(ACTS):
        case "come" if len(group.living) < MAX_MEMBERS:
            group.start(chance.choice((STAYING, DYING)))
        case "go" if len(staying) > 1:
            group.begin_to_close(chance.choice(staying))
