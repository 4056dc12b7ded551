"""Servers measured in turns: a workload is cut into slices, and after each the next server has its turn."""

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


def settle(folder: Path, size: int) -> None:
    """Let the disk finish what earlier runs left, and claim as much page cache as the next run will write.

    Without it a run pays for the dirty pages of the one before, and for pages that the hypervisor took back.
    """
    os.sync()
    scratch = folder / "pretouch"
    with scratch.open("wb") as file:
        block = bytes(1 << 20)
        for _ in range(size >> 20):
            file.write(block)
    scratch.unlink()


@contextmanager
def noted(results: Report, what: str) -> Iterator[None]:
    """A failure is told at the end of the report; what comes after it is measured all the same."""
    try:
        yield
    except Exception as failure:
        results.failures.append(f"{what}: {failure!r}")


@contextmanager
def alone(name: str, running: Mapping[str, Any]) -> Iterator[None]:
    """The other servers stand still: what they compile or collect belongs into their own turns.

    Clusters go on, as their nodes would take each other for dead.
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
    """`runs` of each workload on each of the servers that it could be prepared on."""
    for workload in workloads:
        with console.status(workload.name):
            turn = plan.slice(workload.slices)
            prepared: list[str] = []
            for name, server in running.items():
                with noted(results, f"before {workload.name} on {name}"):
                    workload.prepare(server)
                    prepared.append(name)
            for number_of_turn in range(runs * workload.slices):
                # Who goes first changes, so that neither always finds a warm or a dirty machine.
                for name in sorted(prepared, reverse=number_of_turn % 2 == 1):
                    settle(folder, 2 * turn.limit_bytes)
                    figures: Figures = {}
                    with noted(results, f"{workload.name} on {name}"), alone(name, running):
                        figures = take_turn(workload, running[name], turn)
                    results.add(workload.name, name, figures)
        for name in running:
            console.print(f"[dim]{workload.name:42}[/] {name:6} {in_words(results, workload.name, name)}")


def take_turn(workload: Workload[Any], server: Any, turn: Plan) -> Figures:
    """The figures of a turn, with how busy the generator of the load was."""
    own, began = time.process_time(), time.perf_counter()
    figures = workload.run(server, turn)
    share = (time.process_time() - own) / (time.perf_counter() - began)
    return {**figures, "generator CPU s/s": share}


def in_words(results: Report, workload: str, server: str) -> str:
    """The medians of a server, one after another."""
    if not any(results.turns(workload, server)):
        return "failed"
    medians = ((results.median(workload, server, figure), figure) for figure in results.figures(workload))
    return "  ".join(f"{number(median)} {figure}" for median, figure in medians)
