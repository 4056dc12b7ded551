"""Translates offsets of the source to the target: where a reader of the source continues in the target.

A translated offset is never too late: rows that were not read lie at it or after it. If runs are missing
(some were thinned out, one was not noted) it is earlier, so that rows are read twice rather than left out.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.offset_runs import OffsetRun

# For one partition, in memory: some 100 bytes each.
RUNS_MAX: Final = 4_096


class OffsetMap:
    """The runs of every partition of the target, in the order in which they were written."""

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[OffsetRun]] = {}

    def add(self, partition: TopicPartition, runs: Iterable[OffsetRun]) -> None:
        """Append runs. A run that goes back in either log removes what is known from its offset on.

        A topic that was created again begins at 0 again, in the source or in the target, and a stream that
        began again copies rows a second time. The last run counts.
        """
        known = self._runs.setdefault(partition, [])
        for run in runs:
            _cut_back(known, run)
            last = known[-1] if known else None
            if last is not None and (last.source_end, last.target_end) == (run.source, run.target):
                known[-1] = OffsetRun(last.source, last.target, last.rows + run.rows)
            else:
                known.append(run)
        if len(known) > RUNS_MAX:
            _thin(known)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return where to continue in the target; None (the log start) if `offset` is before all runs."""
        known = self._runs.get(partition, [])
        index = bisect_right(known, offset, key=lambda run: run.source)
        if index == 0:
            return None
        run = known[index - 1]
        return run.target + min(offset - run.source, run.rows)

    def translate_back(self, partition: TopicPartition, offset: int) -> int:
        """Return how far the source is read by a reader of the target at `offset`; never too late either.

        It is 0 if nothing is known.
        """
        known = self._runs.get(partition, [])
        index = bisect_right(known, offset, key=lambda run: run.target)
        if index == 0:
            return 0
        run = known[index - 1]
        return run.source + min(offset - run.target, run.rows)

    def mirrored_to(self, partition: TopicPartition) -> int | None:
        """Return the source's offset after the last row known to be in the target; None if none is."""
        known = self._runs.get(partition)
        return known[-1].source_end if known else None


def _cut_back(known: list[OffsetRun], run: OffsetRun) -> None:
    while known and (known[-1].source_end > run.source or known[-1].target_end > run.target):
        last = known.pop()
        left = min(run.source - last.source, run.target - last.target)
        if left > 0:
            known.append(OffsetRun(last.source, last.target, min(left, last.rows)))
            break


def _thin(known: list[OffsetRun]) -> None:
    """Drop every second run of the older half; their offsets are translated by the run before."""
    half = len(known) // 2
    known[1:half] = known[1:half:2]
