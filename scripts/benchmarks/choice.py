"""The workloads and servers that the command line of `scripts/bench` names, and the output of figures."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from rich.console import Console

from benchmarks import report
from benchmarks.workload import Workload
from tests.compat.java.jars import kafka_classpath, reason_without_java


class Named(Protocol):
    """A workload with the name of its row."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


def chosen_workloads(known: Sequence[N], arguments: Namespace, console: Console) -> list[N]:
    """Return the workloads whose names contain one of the given words; print the names for `--list`."""
    words = arguments.only
    chosen = [one for one in known if not words or any(text in one.name for text in words)]
    if arguments.list:
        for one in chosen:
            console.print(one.name, markup=False)
    return chosen


def chosen_servers(arguments: Namespace, console: Console) -> list[str]:
    """Return the names of the chosen servers, without Apache Kafka if it cannot run here."""
    names: list[str] = arguments.servers.split(",")
    if "kafka" in names and (reason_without_java() or kafka_classpath() is None):
        console.print(f"without Apache Kafka: {reason_without_java() or 'Maven does not resolve it'}")
        names.remove("kafka")
    return names


def report_results(
    results: report.Report,
    chosen: Sequence[Workload[Any]],
    arguments: Namespace,
    console: Console,
    more: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Print the figures, and write them to the file of `--json`, together with the keys of `more`."""
    report.print_table(results, chosen, console)
    if arguments.json:
        report.write_json(results, chosen, arguments.json, more)
