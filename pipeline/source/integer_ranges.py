"""Sets of 64-bit integers as ranges: the offsets, partitions and times that a filter keeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRanges:
    """Ranges from their start to before their end, in rising order and disjoint."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> "IntegerRanges":
        """Return the union of ranges in any order; numbers beyond 64 bits are left out."""
        joined: list[tuple[int, int]] = []
        for start, end in sorted((max(start, LEAST), min(end, MOST + 1)) for start, end in ranges):
            if start >= end:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return cls(ranges=tuple(joined))

    def __contains__(self, number: int) -> bool:
        return any(start <= number < end for start, end in self.ranges)

    def __and__(self, other: "IntegerRanges") -> "IntegerRanges":
        """Return the numbers in both, in one walk over both."""
        common = []
        own, others = 0, 0
        while own < len(self.ranges) and others < len(other.ranges):
            (start, end), (other_start, other_end) = self.ranges[own], other.ranges[others]
            common.append((max(start, other_start), min(end, other_end)))
            if end < other_end:
                own += 1
            else:
                others += 1
        return IntegerRanges.of(common)

    def complement(self) -> "IntegerRanges":
        """Return all other integers."""
        starts = [LEAST, *(end for _, end in self.ranges)]
        ends = [*(start for start, _ in self.ranges), MOST + 1]
        return IntegerRanges.of(zip(starts, ends, strict=True))

    def within(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return the ranges from `start` to before `end`."""
        return (self & IntegerRanges.of([(start, end)])).ranges

    @property
    def is_all(self) -> bool:
        """True if every integer is in the ranges."""
        return self == ALL


ALL: Final = IntegerRanges(ranges=((LEAST, MOST + 1),))
