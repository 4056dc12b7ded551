"""Ranges of offsets for Spark's tasks: one for each partition, or more if options ask for more tasks."""

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
    """Return the ranges that are not empty, divided as the connector divides them.

    First they are cut into pieces of at most `max_records_per_partition` offsets. Then, if these are fewer
    than `min_partitions`, the larger ones are cut in proportion to their size, into about that many in all.
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
    is_single = [_share(one, total, min_partitions) == 1 for one in pieces]
    # Pieces that stay whole are left out of the proportions of the others.
    total -= sum(_size(one) for one, is_whole in zip(pieces, is_single, strict=True) if is_whole)
    wanted = max(min_partitions - sum(is_single), 1)
    return [
        piece
        for one, is_whole in zip(pieces, is_single, strict=True)
        for piece in ([one] if is_whole else _cut(one, _share(one, total, wanted), "minPartitions"))
    ]


def _size(one: OffsetRange) -> int:
    return one.end - one.start


def _share(one: OffsetRange, total: int, parts: int) -> int:
    # Java rounds a half up; Python would round it to the even number.
    return max(math.floor(_size(one) / total * parts + 0.5), 1)


def _cut(one: OffsetRange, parts: int, option: str) -> list[OffsetRange]:
    """Return pieces whose sizes differ by at most one; the last ones are the longer ones."""
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
