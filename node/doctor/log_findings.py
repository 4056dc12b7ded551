"""Finds compacted logs that a node cannot clean, which therefore grow, and damaged log files."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.node.doctor.finding import Finding, named, problem


class UncleanableFacts(NamedTuple):
    """The compacted logs that a node cannot clean: the first of them with reasons, and their number."""

    node_id: int
    logs: Sequence[tuple[str, str]]  # such as orders-0, with the reason
    total: int


class DamagedFacts(NamedTuple):
    """The damaged log files of a node: the first of them with reasons, and their number."""

    node_id: int
    files: Sequence[tuple[str, str]]  # the path with position and offset, and why it is not repaired
    total: int


def of_damaged(facts: Iterable[DamagedFacts]) -> Iterator[Finding]:
    """Yield a problem for each node with damaged log files."""
    for one in facts:
        if one.total:
            files = [f"{file} ({reason.rstrip('.')})" for file, reason in one.files]
            names = named(files, total=one.total, separator="; ")
            what = "a damaged log file" if one.total == 1 else "damaged log files"
            yield problem(
                "log",
                f"Node {one.node_id} has {what}: {names}. A replica with damaged batches leaves "
                "the ISR if another replica is in it, and returns when it is repaired; the node "
                "repairs it automatically from another replica, if there is one. If the problem "
                "stays, check the disk, and move the replica to another one.",
            )


def of_uncleanable(facts: Iterable[UncleanableFacts]) -> Iterator[Finding]:
    """Yield a problem for each node with logs that it cannot clean."""
    for one in facts:
        if one.total:
            logs = [f"{log} ({reason.rstrip('.')})" for log, reason in one.logs]
            names = named(logs, total=one.total, separator="; ")
            what = (
                "a compacted log, which therefore grows"
                if one.total == 1
                else "compacted logs, which therefore grow"
            )
            yield problem(
                "log",
                f"Node {one.node_id} cannot clean {what}: {names}; `ottla log dump` shows the "
                "damage. Move the replica to another broker to get an intact copy.",
            )
