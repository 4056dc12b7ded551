"""Judges the limit of open files: a partition needs three, a connection one.

A node at its limit rejects connections.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, problem

LEAST_LIMIT: Final = 4_096  # for some hundred partitions and clients
MOST_SHARE: Final = 0.8


class LimitFacts(NamedTuple):
    """The number of files that a process may open, and has open (None: it does not run)."""

    name: str  # such as "Node 1"
    limit: int
    open_files: int | None


def of_limits(limits: Iterable[LimitFacts]) -> Iterator[Finding]:
    """Yield a problem for each limit that is low or nearly reached."""
    for one in limits:
        if one.open_files is not None and one.open_files > one.limit * MOST_SHARE:
            yield problem(
                "limit",
                f"{one.name} has {one.open_files} of at most {one.limit} files open: raise the "
                "limit (LimitNOFILE, ulimit -n), or it will reject connections and lose access "
                "to logs.",
            )
        elif one.limit < LEAST_LIMIT:
            yield problem(
                "limit",
                f"{one.name} may open only {one.limit} files: raise the limit (LimitNOFILE, "
                "ulimit -n); each partition needs three files and each connection one.",
            )
