"""Medians, ratios and goals of a benchmark run: a table to read and a JSON file to keep.

A ratio is the median of the ratios of neighbouring turns, because a machine whose speed changes from minute
to minute changes both sides of each. The middle half of these ratios stands beside it.
"""

import contextlib
import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.workload import Figures, Workload, lower_is_better
from benchmarks.workloads import SMALL_GOALS

# Throughput right after the start matters for test suites, restarts and autoscaled pods.
AT_FIRST = "small requests, first 3 s"
# Absolute limits of figures of Ottla, independent of Kafka.
LIMITS = {
    ("start", "first acknowledged record s"): 1.0,
    ("memory after 1 GB", "MB RSS"): 100.0,
    ("groups: classic, 10,000 heartbeat", "p99 ms"): 50.0,
    ("groups: consumer, 10,000 heartbeat", "p99 ms"): 50.0,
    ("cluster start", "first replicated record s"): 2.0,
    ("leader killed", "until writable s"): 1.5,
    ("rolling restart", "longest gap ms"): 300.0,
    ("rolling restart", "failed writes"): 1.0,
    ("memory of all nodes", "MB RSS"): 300.0,
}


@dataclass(slots=True)
class Report:
    """The figures of all turns by workload and server; a turn that failed has none."""

    samples: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, workload: str, server: str, figures: Figures) -> None:
        self.samples.setdefault(workload, {}).setdefault(server, []).append(figures)

    def turns(self, workload: str, server: str) -> list[Figures]:
        return self.samples.get(workload, {}).get(server, [])

    def figures(self, workload: str) -> list[str]:
        """Return the names of a workload's figures."""
        of_all = [turn for turns in self.samples.get(workload, {}).values() for turn in turns]
        return list(dict.fromkeys(figure for turn in of_all for figure in turn))

    def median(self, workload: str, server: str, figure: str) -> float | None:
        values = [turn[figure] for turn in self.turns(workload, server) if figure in turn]
        return statistics.median(values) if values else None

    def ratios(self, workload: str, figure: str) -> tuple[float, float, float] | None:
        """Return median, lower and upper quartile of Ottla/Kafka, turn by turn.

        None if no turn has both, or one of Kafka's figures is 0: the other turns would not match the medians.
        """
        turns = zip(self.turns(workload, "ottla"), self.turns(workload, "kafka"), strict=False)
        pairs = [
            (ottla[figure], kafka[figure]) for ottla, kafka in turns if figure in ottla and figure in kafka
        ]
        if not pairs or not all(kafka for _, kafka in pairs):
            return None
        found = [ottla / kafka for ottla, kafka in pairs]
        lower, _, upper = statistics.quantiles(found, method="inclusive") if len(found) > 1 else found * 3
        return statistics.median(found), lower, upper

    def rows(self, workloads: Sequence[Workload[Any]]) -> list[dict[str, object]]:
        """Return a row for each figure; `reached` is None if there is no goal, or no figure of Kafka's."""
        goals = {workload.name: workload.goals for workload in workloads} | {AT_FIRST: SMALL_GOALS}
        rows: list[dict[str, object]] = []
        for name in self.samples:
            for figure in self.figures(name):
                ottla, kafka = self.median(name, "ottla", figure), self.median(name, "kafka", figure)
                ratio, lower, upper = self.ratios(name, figure) or (None, None, None)
                goal, limit = goals.get(name, {}).get(figure), LIMITS.get((name, figure))
                reached: bool | None = None
                if limit is not None and ottla is not None:
                    reached = ottla < limit
                elif goal is not None and ratio is not None:
                    reached = ratio <= goal if lower_is_better(figure) else ratio >= goal
                row = {"workload": name, "figure": figure, "ottla": ottla, "kafka": kafka, "ratio": ratio}
                row |= {"lower quartile": lower, "upper quartile": upper}
                rows.append({**row, "goal": goal, "limit": limit, "reached": reached})
        return rows


def number(value: object) -> str:
    if not isinstance(value, float):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def print_table(report: Report, workloads: Sequence[Workload[Any]], console: Console) -> None:
    title = "Ottla and Apache Kafka 4.3.1: medians; ratios turn by turn, median and middle half"
    table = Table(title=title, header_style="bold")
    for column in ("workload", "figure", "Ottla", "Kafka", "ratio", "middle half", "goal"):
        table.add_column(column, justify="left" if column in ("workload", "figure") else "right")
    last = None
    for row in report.rows(workloads):
        name, figure = str(row["workload"]), str(row["figure"])
        if last not in (None, name):
            table.add_section()
        goal = ""
        if isinstance(row["limit"], float):
            goal = f"< {row['limit']:g}"
        elif isinstance(row["goal"], float):
            goal = f"{'<=' if lower_is_better(figure) else '>='} {row['goal']:.2g}x"
        if row["reached"] is not None:
            goal += "  yes" if row["reached"] else "  [bold red]NO[/]"
        shown = "" if name == last else name
        ratio = f"{row['ratio']:.2f}x" if isinstance(row["ratio"], float) else "-"
        half = [row["lower quartile"], row["upper quartile"]]
        spread = " to ".join(f"{one:.2f}" for one in half if isinstance(one, float))
        table.add_row(shown, figure, number(row["ottla"]), number(row["kafka"]), ratio, spread, goal)
        last = name
    console.print(table)
    for failure in report.failures:
        console.print(f"[red]failed[/] {failure}")


def machine() -> dict[str, object]:
    """Return the machine, time and command of the measurements."""
    return {
        "cpus": os.cpu_count(),
        "cpu": cpu_model(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["scripts/bench", *sys.argv[1:]]),
    }


def cpu_model() -> str:
    """Return the name of this machine's processor from /proc/cpuinfo."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def write_json(
    report: Report, workloads: Sequence[Workload[Any]], path: Path, more: Mapping[str, object]
) -> None:
    document = {
        "machine": machine(),
        "rows": report.rows(workloads),
        "samples": report.samples,
        "failures": report.failures,
        **more,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
