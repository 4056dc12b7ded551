"""A storm of faults against a share group, and a check of its history at the end.

Each member runs in a worker process, so that a fault can kill it like a node. Released records wait for a
short back-off, and rejected records have a dead letter.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ottla.node.wire.dead_letter_headers import OFFSET, PARTITION
from tests.chaos.history import History
from tests.chaos.nodes import Nodes
from tests.chaos.share_history import Delivery, Place, ShareHistory
from tests.chaos.storm import FAULTS, PARTITIONS, WRITERS, faults_in_turn, inject_fault
from tests.chaos.traffic import CALL_TIMEOUT_S, TOPIC, Writer, create_topic, read_all, read_topic
from tests.compat.wire_client import Closed, WireClient

ROOT = Path(__file__).resolve().parents[2]
GROUP, STATE_TOPIC = "chaos-workers", "__share_group_state"
LETTER_TOPIC = "dlq.chaos"
GROUP_SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "errors.deadletterqueue.topic.name": LETTER_TOPIC,
    "errors.deadletterqueue.copy.record.enable": "true",
    "ottla.share.retry.backoff.ms": "200",
    "ottla.share.retry.backoff.max.ms": "2000",
}
WORKERS = 5
RATE = 10  # the default of records per second, writer and partition
LIMIT = 10
LOCK_MS = 5_000
OVERRIDES = (
    f"group.share.delivery.count.limit={LIMIT}",
    "group.share.min.record.lock.duration.ms=1000",
    f"group.share.record.lock.duration.ms={LOCK_MS}",
    "group.share.min.session.timeout.ms=5000",
    "group.share.session.timeout.ms=6000",
    "group.share.min.heartbeat.interval.ms=500",
    "group.share.heartbeat.interval.ms=1000",
    "share.coordinator.state.topic.num.partitions=3",
    # Snapshots are frequent, so that leaders and coordinators load some.
    "share.coordinator.snapshot.update.records.per.snapshot=20",
)
SHARE_FAULTS = (*FAULTS, "kill coordinator", "kill coordinator", "crash workers", "crash workers")
# The time in which a request to a dead leader fails, and the record locks of dead members expire.
RECOVERY_LIMIT_S = 120.0
LAG_LIMIT_S = 180.0  # within which the group finishes all records after the last fault
STOP_TIMEOUT_S = 60


@dataclass(slots=True)
class ShareOutcome:
    """The result of a storm, which is passed if `problems` is empty."""

    problems: list[str] = field(default_factory=list)
    records: int = 0
    deliveries: Counter[int] = field(default_factory=Counter)  # by delivery count
    finished: int = 0  # records that were accepted or rejected
    letters: int = 0
    faults: list[str] = field(default_factory=list)
    recoveries_s: list[float] = field(default_factory=list)  # until all partitions had finished records again


class Worker:
    """A process with one member of the group, and its output in a file."""

    def __init__(self, bootstrap: str, log: Path, name: str, seed: int) -> None:
        self.log, self.name = log, name
        with log.open("wb") as output, log.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.share_worker", bootstrap, TOPIC, GROUP, name, str(seed)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
            )

    def lines(self) -> list[list[str]]:
        """Return the complete lines of its output."""
        return [line.split() for line in self.log.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def deliveries(self) -> list[Delivery]:
        """Return its deliveries; an acknowledgement belongs to the last delivery of its record."""
        found: list[Delivery] = []
        last: dict[Place, Delivery] = {}
        for word, *rest in self.lines():
            if word == "closed":
                continue
            place = Place(int(rest[0]), int(rest[1]))
            if word == "delivered":
                last[place] = Delivery(
                    place=place, member=self.name, count=int(rest[2]), not_before_s=float(rest[3])
                )
                found.append(last[place])
            elif word == "acknowledged":
                last[place].acknowledgement = rest[3]
            else:
                last[place].confirmed_s = float(rest[3])
        return found

    def crash(self) -> None:
        self.process.kill()
        self._reap()

    def stop(self) -> str | None:
        """Let the member leave its group and end; return how it failed, or None."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.crash()
            return f"worker {self.name} does not end"
        return f"worker {self.name} ended with {code}: {self.errors()}" if code else None

    def errors(self) -> str:
        return self.log.with_suffix(".err").read_text()[-2000:]

    def _reap(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Workers:
    """All workers of a run, crashed ones included, each of which is replaced."""

    def __init__(self, bootstrap: str, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._bootstrap, self._folder, self._seed = bootstrap, folder, seed
        self.running: list[Worker] = []
        self._gone: list[Worker] = []
        for _ in range(WORKERS):
            self._start()

    def _start(self) -> None:
        name = f"worker-{len(self.running) + len(self._gone)}"
        self.running.append(Worker(self._bootstrap, self._folder / f"{name}.log", name, self._seed))

    def crash(self, count: int, chance: random.Random) -> None:
        for one in chance.sample(self.running, count):
            one.crash()
            self.running.remove(one)
            self._gone.append(one)
            self._start()

    def history(self) -> ShareHistory:
        history = ShareHistory(LIMIT)
        for worker in (*self._gone, *self.running):
            for delivery in worker.deliveries():
                history.add(delivery)
        return history

    def wait_until_finished_after(self, after_s: float) -> float:
        """Wait until each partition finishes a record delivered after `after_s`; return the seconds."""
        while True:
            self.check()
            final = [one for one in self.history().final_deliveries() if one.not_before_s > after_s]
            if {one.place.partition for one in final} >= set(range(PARTITIONS)):
                return time.monotonic() - after_s
            assert time.monotonic() - after_s < RECOVERY_LIMIT_S, "the group finishes no more records"
            time.sleep(0.5)

    def check(self) -> None:
        for one in self.running:
            assert one.process.poll() is None, f"{one.name} has ended: {one.errors()}"

    def stop(self) -> list[str]:
        failures = [one.stop() for one in self.running]
        return [one for one in failures if one is not None]

    def kill(self) -> None:
        for one in self.running:
            one.crash()


def share_storm(
    data: Path,
    *,
    seed: int,
    seconds: float,
    faults: tuple[str, ...] = SHARE_FAULTS,
    at_least: int = 1,
    rate: float = RATE,
) -> ShareOutcome:
    """Run three nodes, writers and a share group under faults, and check the history.

    Faults are injected for `seconds`, and at least `at_least` of them. Then the group finishes all records.
    """
    chance = random.Random(seed)
    nodes = Nodes(data, *OVERRIDES)
    workers = None
    try:
        create_topic(nodes.bootstrap, PARTITIONS, 3)
        allowed = {"errors.deadletterqueue.group.enable": "true"}
        create_topic(nodes.bootstrap, PARTITIONS, 3, name=LETTER_TOPIC, config=allowed)
        _configure_group(nodes.bootstrap)
        history = History()
        writers = [Writer(number, nodes.bootstrap, PARTITIONS, rate, history) for number in range(WRITERS)]
        workers = Workers(nodes.bootstrap, data / "workers", seed)
        outcome = ShareOutcome()
        workers.wait_until_finished_after(time.monotonic())
        injected = outcome.faults
        for fault in faults_in_turn(faults, injected, seconds=seconds, at_least=at_least, chance=chance):
            began_s = time.monotonic()
            if fault == "crash workers":
                workers.crash(chance.randint(1, WORKERS), chance)
            else:
                inject_fault(nodes, fault, chance, history, _coordinator_of)
            outcome.recoveries_s.append(workers.wait_until_finished_after(began_s))
        nodes.wait_until_in_sync()
        for writer in writers:
            writer.stop()
        log = read_all(nodes.bootstrap, PARTITIONS)
        outcome.problems += history.problems(log)
        outcome.problems += _wait_until_no_lag(nodes)
        outcome.problems += [*workers.stop(), *nodes.tracebacks()]
        seen = workers.history()
        outcome.records, outcome.finished = len(log), len(seen.final_deliveries())
        outcome.deliveries = Counter(
            one.count for deliveries in seen.of_record.values() for one in deliveries
        )
        outcome.problems += seen.problems(Place(partition, offset) for partition, offset, _ in log)
        letters = [_place_of(one) for one in read_topic(nodes.bootstrap, LETTER_TOPIC, PARTITIONS)]
        outcome.letters = len(letters)
        outcome.problems += seen.letter_problems(letters)
        return outcome
    finally:
        if workers is not None:
            workers.kill()
        nodes.stop_all()


def _configure_group(bootstrap: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in GROUP_SETTINGS.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(CALL_TIMEOUT_S)


def _place_of(letter: Message) -> Place:
    """Return the place of the record that a dead letter is about."""
    headers = dict(letter.headers() or [])
    return Place(int(headers[PARTITION]), int(headers[OFFSET]))


def _coordinator_of(nodes: Nodes, chance: random.Random) -> int:
    """Return a node that leads a partition of the share group state topic."""
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    partitions = admin.list_topics(STATE_TOPIC, CALL_TIMEOUT_S).topics[STATE_TOPIC].partitions
    return int(partitions[chance.choice(sorted(partitions))].leader)


def _wait_until_no_lag(nodes: Nodes) -> list[str]:
    """Wait until the group's coordinator reports no lag; return the problem if the lag stays."""
    deadline = time.monotonic() + LAG_LIMIT_S
    lags: Sequence[Any] = ()
    while time.monotonic() < deadline:
        lags = _lags(nodes)
        if len(lags) == PARTITIONS and not any(lag for _, lag in lags):
            return []
        time.sleep(0.5)
    return [f"lost: the group still has a lag: {lags}"]


def _lags(nodes: Nodes) -> list[tuple[int, int]]:
    """Return the lag by partition, from the node that coordinates the group; empty if there is none."""
    topics = [{"topic_name": TOPIC, "partitions": list(range(PARTITIONS))}]
    for address in nodes.addresses:
        try:
            with WireClient(address) as client:
                groups = [{"group_id": GROUP, "topics": topics}]
                (group,) = client.call("describe_share_group_offsets", 1, groups=groups).groups
        except (Closed, OSError):
            continue
        if not group.error_code:
            found = [one for topic in group.topics for one in topic.partitions]
            lags = [(one.partition_index, one.lag) for one in found if not one.error_code]
            if lags and all(lag >= 0 for _, lag in lags):
                return sorted(lags)
    return []
