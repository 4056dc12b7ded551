"""`scripts/bench` measures servers in turns, also if one of them fails or dies."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

sys.path.append(str(Path(__file__).resolve().parents[3] / "scripts"))

from benchmarks import clusters, servers
from benchmarks.report import Report
from benchmarks.turns import alone, measure
from benchmarks.workload import Figures, Plan, Workload

PLAN = Plan(seconds=3.0, limit_bytes=0)


@dataclass
class Target:
    """A stand-in for a server with a rate of requests a second, or one that fails."""

    name: str
    requests_per_s: float = 100.0
    is_broken: bool = False


def run(target: Target, plan: Plan) -> Figures:
    if target.is_broken:
        raise ConnectionRefusedError(target.name)
    return {"requests/s": target.requests_per_s, "s": plan.seconds}


def prepare(target: Target) -> None:
    run(target, PLAN)


def measured(tmp_path: Path, workload: Workload[Target], *targets: Target) -> tuple[Report, str]:
    results, shown = Report(), io.StringIO()
    running = {target.name: target for target in targets}
    measure([workload], running, PLAN, 2, tmp_path, results, Console(file=shown, width=130))
    return results, shown.getvalue()


def test_each_run_is_cut_into_slices_and_the_servers_alternate(tmp_path: Path) -> None:
    order: list[str] = []

    def note(target: Target, plan: Plan) -> Figures:
        order.append(target.name)
        return run(target, plan)

    results, _ = measured(tmp_path, Workload(name="w", run=note, slices=3), Target("a"), Target("b"))

    assert order == ["a", "b", "b", "a"] * 3
    assert [turn["s"] for turn in results.turns("w", "a")] == [1.0] * 6


def test_a_server_that_fails_each_turn_is_reported_as_failed(tmp_path: Path) -> None:
    workload = Workload(name="w", run=run)
    results, shown = measured(tmp_path, workload, Target("ottla"), Target("kafka", is_broken=True))

    assert results.turns("w", "kafka") == [{}, {}]
    assert results.failures == ["w on kafka: ConnectionRefusedError('kafka')"] * 2
    assert [line.split()[1:3] for line in shown.splitlines()] == [["ottla", "100"], ["kafka", "failed"]]


def test_a_server_whose_preparation_failed_is_not_measured(tmp_path: Path) -> None:
    cold = Workload(name="w", run=run, prepare=prepare)
    results, shown = measured(tmp_path, cold, Target("ottla"), Target("kafka", is_broken=True))

    assert results.turns("w", "kafka") == []
    assert results.failures == ["before w on kafka: ConnectionRefusedError('kafka')"]
    assert results.median("w", "ottla", "requests/s") == 100.0
    assert shown.split()[-3:] == ["w", "kafka", "failed"]


@pytest.fixture
def other() -> subprocess.Popen[str]:
    return subprocess.Popen(["sleep", "20"], text=True)


def as_server(process: subprocess.Popen[str], tmp_path: Path) -> servers.Server:
    return servers.Server(name="kafka", port=0, pid=process.pid, process=process, data=tmp_path / "none")


def state_change_of(process: subprocess.Popen[str]) -> int:
    """Wait until the process is paused, resumed or ended; return its status."""
    change = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOWAIT)
    assert change is not None
    return change.si_code


def test_a_waiting_server_is_paused(other: subprocess.Popen[str], tmp_path: Path) -> None:
    server = as_server(other, tmp_path)
    try:
        with alone("ottla", {"ottla": Target("ottla"), "kafka": server}):
            assert state_change_of(other) == os.CLD_STOPPED
        assert state_change_of(other) == os.CLD_CONTINUED
    finally:
        server.stop()


def test_a_dead_server_does_not_affect_the_turns_of_others(
    other: subprocess.Popen[str], tmp_path: Path
) -> None:
    server = as_server(other, tmp_path)
    server.stop()

    with alone("ottla", {"ottla": Target("ottla"), "kafka": server}):
        pass


def test_nodes_of_a_cluster_keep_the_default_session_timeout() -> None:
    """Nodes of a cluster are never paused, and a killed one must be fenced as soon as by default."""
    assert not any("session.timeout" in override for override in clusters.CLUSTER_OVERRIDES)
