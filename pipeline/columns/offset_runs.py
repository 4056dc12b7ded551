"""The places of rows that were copied from one log to another: runs in which both offsets go up by one."""

from typing import NamedTuple

import numpy as np

from ottla.pipeline.columns.varints import Int64s


class OffsetRun(NamedTuple):
    """`rows` consecutive rows, from offset `source` in the one log and from `target` in the other."""

    source: int
    target: int
    rows: int

    @property
    def source_end(self) -> int:
        """The offset after its last row."""
        return self.source + self.rows

    @property
    def target_end(self) -> int:
        """The offset after its last row."""
        return self.target + self.rows


class Steps(NamedTuple):
    """The rows of one record batch in few numbers: the first offset of each step, and its number of rows."""

    sources: Int64s
    counts: Int64s


def find_steps(offsets: Int64s) -> Steps:
    """Divide offsets into steps: rows are missing between them (markers, aborted or compacted records)."""
    firsts = np.flatnonzero(np.diff(offsets, prepend=offsets[:1] - 2) != 1)
    return Steps(offsets[firsts], np.diff(firsts, append=len(offsets)))


def make_runs(batches: list[tuple[Steps, int]], *, lag_max: int, runs_max: int) -> list[OffsetRun]:
    """Return the runs of a partition's batches, given in order with the target offset of their first row.

    The rows are counted in spans of `lag_max`: of the runs that end in one span only the first is kept, and
    the last run always is. An offset in a run that was left out is translated to the end of the run before
    it, at most a span too early. With more than `runs_max` runs the spans are longer.
    """
    if not batches:
        return []
    sources = np.concatenate([steps.sources for steps, _ in batches])
    counts = np.concatenate([steps.counts for steps, _ in batches])
    targets = np.concatenate([base + np.cumsum(steps.counts) - steps.counts for steps, base in batches])
    goes_on = (sources[1:] == sources[:-1] + counts[:-1]) & (targets[1:] == targets[:-1] + counts[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    sources, targets, counts = sources[firsts], targets[firsts], np.add.reduceat(counts, firsts)
    ends = np.cumsum(counts)
    distance = max(lag_max, 1, -(-int(ends[-1]) // max(runs_max - 2, 1)))
    is_kept = np.diff(ends // distance, prepend=-1) > 0
    is_kept[-1] = True
    return [
        OffsetRun(int(source), int(target), int(count))
        for source, target, count in zip(sources[is_kept], targets[is_kept], counts[is_kept], strict=True)
    ]
