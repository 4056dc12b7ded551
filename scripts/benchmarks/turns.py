"""Measures servers in turns: a workload is cut into slices, and after each the next server has its turn."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import Report, number
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan, Workload


def prepare_page_cache(folder: Path, size: int) -> None:
    """Flush what earlier runs left to write, and claim as much page cache as the next run will write.

    Otherwise a run pays for the dirty pages of the one before, and for pages that the hypervisor took back.
    """
    os.sync()
    scratch = folder / "pretouch"
    with scratch.open("wb") as file:
        block = bytes(1 << 20)
        for _ in range(size >> 20):
            file.write(block)
    scratch.unlink()


@contextmanager
def failures_recorded(results: Report, name: str) -> Iterator[None]:
    """Record an exception of the block for the end of the report, and go on."""
    try:
        yield
    except Exception as failure:
        results.failures.append(f"{name}: {failure!r}")


@contextmanager
def alone(name: str, running: Mapping[str, Any]) -> Iterator[None]:
    """Pause the other servers during the block, so that they compile and collect in their own turns only.

    Clusters are not paused, as their nodes would fence each other.
    """
    others = [server for other, server in running.items() if other != name]
    paused = [server for server in others if isinstance(server, Server)]
    for server in paused:
        server.pause()
    try:
        yield
    finally:
        for server in paused:
            server.resume()


def measure(
    workloads: Sequence[Workload[Any]],
    running: Mapping[str, Any],
    plan: Plan,
    runs: int,
    folder: Path,
    results: Report,
    console: Console,
) -> None:
    """Run each workload `runs` times on each of the servers on which its preparation succeeded."""
    for workload in workloads:
        with console.status(workload.name):
            turn = plan.slice(workload.slices)
            prepared: list[str] = []
            for name, server in running.items():
                with failures_recorded(results, f"before {workload.name} on {name}"):
                    workload.prepare(server)
                    prepared.append(name)
            for number_of_turn in range(runs * workload.slices):
                # The order alternates, so that neither server always finds a warm or a dirty machine.
                for name in sorted(prepared, reverse=number_of_turn % 2 == 1):
                    prepare_page_cache(folder, 2 * turn.limit_bytes)
                    figures: Figures = {}
                    with failures_recorded(results, f"{workload.name} on {name}"), alone(name, running):
                        figures = take_turn(workload, running[name], turn)
                    results.add(workload.name, name, figures)
        for name in running:
            console.print(f"[dim]{workload.name:42}[/] {name:6} {in_words(results, workload.name, name)}")


def take_turn(workload: Workload[Any], server: Any, turn: Plan) -> Figures:
    """Return the figures of a turn, with the CPU share of the load generator."""
    own, began = time.process_time(), time.perf_counter()
    figures = workload.run(server, turn)
    share = (time.process_time() - own) / (time.perf_counter() - began)
    return {**figures, "generator CPU s/s": share}


def in_words(results: Report, workload: str, server: str) -> str:
    """Return the medians of a server as text."""
    if not any(results.turns(workload, server)):
        return "failed"
    medians = ((results.median(workload, server, figure), figure) for figure in results.figures(workload))
    return "  ".join(f"{number(median)} {figure}" for median, figure in medians)
