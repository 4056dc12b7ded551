"""Open files: a partition has three, a connection one; a node that can open no more takes nobody in."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, problem

LEAST_LIMIT: Final = 4_096  # some hundred partitions and clients
MOST_SHARE: Final = 0.8


class LimitFacts(NamedTuple):
    """How many files a process may open, and has open (None: it does not run)."""

    name: str  # The node 1
    limit: int
    open_files: int | None


def of_limits(limits: Iterable[LimitFacts]) -> Iterator[Finding]:
    """Limits that are low, or nearly reached."""
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
