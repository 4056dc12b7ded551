"""`format("ottla")` beside Spark's own Kafka connector, in turns of one session with one broker.

A group is one job done in several ways, each of which has a turn in every round. Ratios are computed within a
round, so a disturbance of the machine affects both sides. The order of the ways is reversed in every second
round.
"""

import json
import statistics
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import clients, servers
from benchmarks.report import machine, number
from benchmarks.spark_jobs import PARTITIONS, Figures, JobContext, Side, copy, fill, sink, source
from benchmarks.spark_session import spark_client
from benchmarks.spark_trickle import trickle

ROWS, QUICK_ROWS = 2_000_000, 200_000
BATCH_ROWS = 100_000
RATE = "k rows/s"

CONNECTOR = Side(format="kafka")
OTTLA = Side(format="ottla")
TUNED_SOURCE = Side(format="kafka", options={"kafka.max.partition.fetch.bytes": str(8 << 20)})
TUNED_SINK = Side(format="kafka", options={"kafka.batch.size": str(256 << 10), "kafka.linger.ms": "20"})
EXACTLY_ONCE = Side(
    format="ottla", options={"delivery.guarantee": "exactly_once", "transactional.id": "bench"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to do the job of its group; `goals` are ratios to reach against other ways, by their names."""

    name: str
    run: Callable[[JobContext], Figures]
    goals: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A job; `figure` is the figure that is compared."""

    name: str
    ways: Sequence[Way]
    figure: str = RATE


DEFAULTS, TUNED = "connector", "connector, tuned"
GROUPS = (
    Group(
        name="spark: source",
        ways=(
            Way(name=DEFAULTS, run=source(CONNECTOR)),
            Way(name=TUNED, run=source(TUNED_SOURCE)),
            Way(name="ottla", run=source(OTTLA), goals={DEFAULTS: 2.3}),
        ),
    ),
    Group(
        name="spark: sink",
        ways=(
            Way(name=DEFAULTS, run=sink(CONNECTOR)),
            Way(name=TUNED, run=sink(TUNED_SINK)),
            Way(name="ottla, at least once", run=sink(OTTLA), goals={DEFAULTS: 1.5, TUNED: 1.1}),
            Way(
                name="ottla, exactly once",
                run=sink(EXACTLY_ONCE, in_stream=True),
                goals={DEFAULTS: 1.5, TUNED: 1.1},
            ),
        ),
    ),
    Group(
        name="spark: copy",
        ways=(
            Way(name=TUNED, run=copy(TUNED_SOURCE, TUNED_SINK)),
            Way(name="ottla, at least once", run=copy(OTTLA, OTTLA)),
            Way(name="ottla, exactly once", run=copy(OTTLA, EXACTLY_ONCE), goals={TUNED: 1.2}),
        ),
    ),
    Group(
        name="spark: copy, batches of 100,000",
        ways=(
            Way(name=TUNED, run=copy(TUNED_SOURCE, TUNED_SINK, batch_rows=BATCH_ROWS)),
            Way(name="ottla, at least once", run=copy(OTTLA, OTTLA, batch_rows=BATCH_ROWS)),
            Way(
                name="ottla, exactly once",
                run=copy(OTTLA, EXACTLY_ONCE, batch_rows=BATCH_ROWS),
                goals={TUNED: 1.0},
            ),
        ),
    ),
    Group(
        name="spark: trickle",
        figure="p50 ms",
        ways=(
            Way(name=DEFAULTS, run=trickle(CONNECTOR, CONNECTOR)),
            Way(name="ottla, at least once", run=trickle(OTTLA, OTTLA)),
            Way(name="ottla, exactly once", run=trickle(OTTLA, EXACTLY_ONCE)),
            Way(name="connector, Real-time Mode", run=trickle(CONNECTOR, CONNECTOR, real_time=True)),
        ),
    ),
)

Samples = dict[str, list[Figures]]  # by way, one for each round


def main(arguments: Namespace, console: Console) -> int:
    """Measure the groups whose names contain the given words, on each broker."""
    words = arguments.only
    groups = [group for group in GROUPS if not words or any(text in group.name for text in words)]
    if arguments.list:
        for group in groups:
            for way in group.ways:
                console.print(f"{group.name}: {way.name}", markup=False)
        return 0
    rows = QUICK_ROWS if arguments.quick else ROWS
    brokers = ["ottla", *([arguments.against] if arguments.against else [])]
    found: dict[str, dict[str, Samples]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        spark_client(Path(folder) / "spark") as client,
    ):
        for broker in brokers:
            server = servers.start(broker, Path(folder) / broker)
            try:
                filled = clients.create_topic(server.bootstrap, PARTITIONS)
                context = JobContext(client=client, server=server, rows=rows, filled=filled)
                fill(context)
                found[broker] = {
                    group.name: measure(group, context, arguments.runs, console) for group in groups
                }
            finally:
                server.stop()
            print_table(broker, rows, groups, found[broker], console)
    if arguments.json:
        document = {"machine": machine(), "rows": rows, "samples": found}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def measure(group: Group, context: JobContext, rounds: int, console: Console) -> Samples:
    """Measure `rounds` rounds, after one that is not counted because code is compiled in it."""
    samples: Samples = {way.name: [] for way in group.ways}
    for turn in range(rounds + 1):
        for way in group.ways if turn % 2 else reversed(group.ways):
            try:
                figures = way.run(context)
            except Exception as failure:
                console.print(
                    f"[red]failed[/] {group.name}, {way.name}: {str(failure)[:1000]}", highlight=False
                )
                figures = {}
            if turn:
                samples[way.name].append(figures)
                words = "  ".join(f"{number(value)} {name}" for name, value in figures.items())
                console.print(f"[dim]{group.name}, {way.name}[/]  {words}", highlight=False)
    return samples


def ratio(samples: Samples, figure: str, way: str, other: str) -> float | None:
    """Return the median ratio of two ways, over the rounds that have both; None if none has."""
    pairs = zip(samples[way], samples[other], strict=True)
    ratios = [one[figure] / two[figure] for one, two in pairs if figure in one and figure in two]
    return statistics.median(ratios) if ratios else None


def print_table(
    broker: str, rows: int, groups: Sequence[Group], found: dict[str, Samples], console: Console
) -> None:
    title = f"Spark on {broker}, {rows:,} rows: min, median, max of the rounds; ratios round by round"
    table = Table(title=title, header_style="bold")
    for column in ("job", "way", "figure", "min", "median", "max", "ratio", "goal"):
        table.add_column(column, justify="left" if column in ("job", "way", "figure") else "right")
    for group in groups:
        samples = found[group.name]
        for way in group.ways:
            names = dict.fromkeys(name for figures in samples[way.name] for name in figures)
            for name in names:
                values = sorted(figures[name] for figures in samples[way.name] if name in figures)
                cells = [number(float(value)) for value in (values[0], statistics.median(values), values[-1])]
                ratios, goals = _ratios_and_goals(group, way, samples) if name == group.figure else ("", "")
                first = name == next(iter(names))
                table.add_row(
                    group.name.removeprefix("spark: ") if first and way is group.ways[0] else "",
                    way.name if first else "",
                    name,
                    *cells,
                    ratios,
                    goals,
                )
        table.add_section()
    console.print(table)


def _ratios_and_goals(group: Group, way: Way, samples: Samples) -> tuple[str, str]:
    """Return the ratios to the ways of the connector that have no goals, and the goals, one a line."""
    ratios, goals = [], []
    for other in group.ways:
        if other is way or other.goals or not other.name.startswith("connector"):
            continue
        reached = ratio(samples, group.figure, way.name, other.name)
        if reached is None:
            continue
        ratios.append(f"{reached:.2f}x {other.name}")
        goal = way.goals.get(other.name)
        goals.append("" if goal is None else f">= {goal:g}x {'yes' if reached >= goal else 'NO'}")
    return "\n".join(ratios), "\n".join(goals)
