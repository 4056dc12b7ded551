"""A storm: faults in an order that a seed decides, under load, and a check of the history at the end."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import transactions
from tests.chaos.history import History
from tests.chaos.nodes import Nodes
from tests.chaos.traffic import Reader, Writer, acknowledged_after, create_topic, read_all
from tests.chaos.transaction_history import TransactionHistory
from tests.chaos.transactions import CommittedReader, TransactionWriter

PARTITIONS = 6
WRITERS = 3
RATE = 50  # the default of records per second, writer and partition
PAUSE_S = (0.5, 12.0)  # some shorter and some longer than broker.session.timeout.ms
REST_S = (0.2, 2.0)
RECOVERY_LIMIT_S = 90.0
FAULTS = ("kill leader", "kill follower", "kill controller", "kill all", "pause leader", "pause follower")
FAULTS += ("pause controller", "terminate leader", "terminate follower", "terminate controller")


@dataclass(slots=True)
class Outcome:
    """The result of a storm, which is passed if `problems` is empty."""

    problems: list[str]
    records: int
    acknowledged: int
    faults: list[str] = field(default_factory=list)
    # From the beginning of each fault until all partitions accept writes.
    recoveries_s: list[float] = field(default_factory=list)
    transactions: Counter[str] = field(default_factory=Counter)  # by outcome
    transaction_failures: Counter[str] = field(default_factory=Counter)


def storm(
    data: Path,
    *,
    seed: int,
    seconds: float,
    faults: tuple[str, ...] = FAULTS,
    at_least: int = 1,
    rate: float = RATE,
) -> Outcome:
    """Run three nodes with writers and readers under faults, and check the history.

    Faults are injected for `seconds`, and at least `at_least` of them. Then all replicas get in sync again.
    """
    chance = random.Random(seed)
    nodes = Nodes(data)
    try:
        create_topic(nodes.bootstrap, PARTITIONS, 3)
        history = History()
        writers = [Writer(number, nodes.bootstrap, PARTITIONS, rate, history) for number in range(WRITERS)]
        reader = Reader(nodes.bootstrap, PARTITIONS, history)
        transactions.create_topic(nodes.bootstrap)
        decided = TransactionHistory()
        producers = [
            TransactionWriter(f"{type(client).__name__}-{number}", client, decided, seed)
            for number, client in enumerate(transactions.clients(nodes.bootstrap))
        ]
        committed = CommittedReader(nodes.bootstrap, decided)
        outcome = Outcome([], 0, 0)
        injected = outcome.faults
        for fault in faults_in_turn(faults, injected, seconds=seconds, at_least=at_least, chance=chance):
            outcome.recoveries_s.append(inject_fault(nodes, fault, chance, history))
        nodes.wait_until_in_sync()
        for writer in (*writers, *producers):
            writer.stop()
        time.sleep(0.5)
        reader.stop()
        committed.stop()
        log = read_all(nodes.bootstrap, PARTITIONS)
        outcome.records, outcome.acknowledged = len(log), len(history.acknowledged)
        outcome.problems = [*history.problems(log), *nodes.tracebacks()]
        outcome.problems += decided.problems(transactions.read_all_committed(nodes.bootstrap))
        outcome.transactions = Counter(one.value for one in decided.outcomes.values())
        outcome.transaction_failures = decided.failures
        outcome.problems += [f"given up: {one}" for one in history.failed[:20]]
        if len(history.acknowledged) + len(history.failed) != sum(writer.sent for writer in writers):
            outcome.problems.append("some records have no known outcome")
        return outcome
    finally:
        nodes.stop_all()


def faults_in_turn(
    faults: Sequence[str], injected: list[str], *, seconds: float, at_least: int, chance: random.Random
) -> Iterator[str]:
    """Yield faults for `seconds`, and at least `at_least` of them, each after a pause.

    Each fault is also appended to `injected`. Every fault is yielded once before any is repeated.
    """
    deadline = time.monotonic() + seconds
    waiting = list(faults)
    chance.shuffle(waiting)
    while time.monotonic() < deadline or len(injected) < at_least:
        time.sleep(chance.uniform(*REST_S))
        injected.append(waiting.pop() if waiting else chance.choice(faults))
        yield injected[-1]


def no_coordinator(nodes: Nodes, chance: random.Random) -> int:
    """Fail: this storm has no coordinator that a fault could hit."""
    raise AssertionError("no coordinator takes part")


def inject_fault(
    nodes: Nodes,
    fault: str,
    chance: random.Random,
    history: History,
    coordinator_of: Callable[[Nodes, random.Random], int] = no_coordinator,
) -> float:
    """Inject a fault and end it; return the seconds from its beginning until every partition accepts writes.

    `coordinator_of` returns the victim of a fault that hits a coordinator.
    """
    verb, target = fault.split()
    began = time.monotonic()
    if target == "all":
        victims = [0, 1, 2]
    elif target == "coordinator":
        victims = [coordinator_of(nodes, chance)]
    else:
        victims = [choose_node(nodes, target, chance)]
    for victim in victims:
        {"kill": nodes.kill, "pause": nodes.pause, "terminate": nodes.terminate}[verb](victim)
    known = len(history.acknowledged)
    if target != "all":
        # A majority is left, so writes must continue before the victim is back.
        acknowledged_after(history, known, range(PARTITIONS), RECOVERY_LIMIT_S)
    took = time.monotonic() - began
    time.sleep(chance.uniform(0.0, 1.0))
    if verb == "pause":
        time.sleep(max(0.0, chance.uniform(*PAUSE_S) - (time.monotonic() - began)))
        nodes.resume(victims[0])
    else:
        nodes.start(*victims)
    if target == "all":
        known = len(history.acknowledged)
        acknowledged_after(history, known, range(PARTITIONS), RECOVERY_LIMIT_S)
        took = time.monotonic() - began
    # Writes may stop if two of three replicas fail, so all must be in sync before the next fault.
    nodes.wait_until_in_sync()
    return took


def choose_node(nodes: Nodes, target: str, chance: random.Random) -> int:
    if target == "controller":
        return nodes.controller()
    leader = nodes.leader_of(chance.randrange(PARTITIONS))
    return leader if target == "leader" else chance.choice([one for one in (0, 1, 2) if one != leader])
