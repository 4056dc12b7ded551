"""Ranges of offsets for Spark's tasks: one for each partition, or more where options ask for more tasks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.words import OptionError

MAX_PARTS: Final = 100_000  # of one partition; a task costs Spark milliseconds, however small it is


def divide(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """Those that are not empty, cut as the connector cuts them.

    First into pieces of `max_records_per_partition` offsets at most; then, if these are fewer than
    `min_partitions`, the larger ones in proportion to their size, into about so many in all.
    """
    pieces = [one for one in ranges if _size(one) > 0]
    if max_records_per_partition is not None:
        pieces = [
            piece
            for one in pieces
            for piece in _cut(one, -(-_size(one) // max_records_per_partition), "maxRecordsPerPartition")
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(map(_size, pieces))
    stays_whole = [_share(one, total, min_partitions) == 1 for one in pieces]
    # What stays whole takes no part in the proportions of the others.
    total -= sum(_size(one) for one, is_whole in zip(pieces, stays_whole, strict=True) if is_whole)
    wanted = max(min_partitions - sum(stays_whole), 1)
    return [
        piece
        for one, is_whole in zip(pieces, stays_whole, strict=True)
        for piece in ([one] if is_whole else _cut(one, _share(one, total, wanted), "minPartitions"))
    ]


def _size(one: OffsetRange) -> int:
    return one.end - one.start


def _share(one: OffsetRange, total: int, parts: int) -> int:
    # Java rounds a half up; Python would round it to even.
    return max(math.floor(_size(one) / total * parts + 0.5), 1)


def _cut(one: OffsetRange, parts: int, option: str) -> list[OffsetRange]:
    """Pieces whose sizes differ by one at most; the last ones are the longer ones."""
    if parts > MAX_PARTS:
        raise OptionError(
            option, f"would split {one.partition} into {parts} tasks, but at most {MAX_PARTS} are allowed"
        )
    pieces = []
    start, left = one.start, _size(one)
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size:
            pieces.append(replace(one, start=start, end=start + size))
        start += size
    return pieces
