"""The history of clients while nodes fail, and a checker of its rules.

A writer sends increasing numbers to each partition, idempotent and with acks=all. The rules:

- an acknowledged record is in the log, at the acknowledged offset;
- no record is in the log twice, acknowledged or not;
- the records of a writer are in the order in which it sent them, without a gap before an acknowledged one;
- a record that was read at an offset is still there at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_PROBLEMS = 20  # of each kind, so that one lost segment does not fill the screen


class Stamp(NamedTuple):
    """The value of a record: its writer, its partition, and its number among this writer's records there."""

    writer: int
    partition: int
    number: int

    def encode(self) -> bytes:
        return f"{self.writer}/{self.partition}/{self.number}".encode()

    @classmethod
    def decode(cls, value: bytes) -> "Stamp":
        writer, partition, number = value.split(b"/", 2)
        return cls(int(writer), int(partition), int(number))


@dataclass(slots=True)
class History:
    """The records that were acknowledged and those that were read; several threads append to it."""

    # With the acknowledged offset; None if the client learned that an earlier attempt had succeeded
    # (librdkafka, from DUPLICATE_SEQUENCE_NUMBER).
    acknowledged: list[tuple[Stamp, int | None]] = field(default_factory=list)
    read: list[tuple[int, int, Stamp]] = field(default_factory=list)  # partition, offset
    failed: list[str] = field(default_factory=list)  # records that the client gave up on

    def problems(self, log: Sequence[tuple[int, int, Stamp]]) -> list[str]:
        """Return the violations of the rules by `log`, which is all records as (partition, offset, stamp)."""
        place = {(partition, offset): stamp for partition, offset, stamp in log}
        offsets: dict[Stamp, list[int]] = {}
        for partition, offset, stamp in sorted(log):
            if stamp.partition == partition:
                offsets.setdefault(stamp, []).append(offset)
        problems = [
            f"lost: {stamp} was acknowledged at {offset}, where {place.get((stamp.partition, offset))} is"
            for stamp, offset in self.acknowledged
            if offset is not None and place.get((stamp.partition, offset)) != stamp
        ][:MAX_PROBLEMS]
        problems += [
            f"lost: {stamp} was acknowledged and is nowhere"
            for stamp, offset in self.acknowledged
            if offset is None and stamp not in offsets
        ][:MAX_PROBLEMS]
        problems += [
            f"strayed: {stamp} is in partition {partition}"
            for partition, _, stamp in log
            if stamp.partition != partition
        ][:MAX_PROBLEMS]
        problems += [f"twice: {stamp} is at {at}" for stamp, at in offsets.items() if len(at) > 1][
            :MAX_PROBLEMS
        ]
        problems += _out_of_order(log)[:MAX_PROBLEMS]
        problems += [
            f"changed: a reader saw {stamp} at {partition}/{offset}, now {place.get((partition, offset))}"
            for partition, offset, stamp in self.read
            if place.get((partition, offset)) != stamp
        ][:MAX_PROBLEMS]
        return problems


def _out_of_order(log: Sequence[tuple[int, int, Stamp]]) -> list[str]:
    """Return the gaps in the numbers of each writer, and numbers that are out of order."""
    last: dict[tuple[int, int], int] = {}
    problems = []
    for partition, offset, stamp in sorted(log):
        key = (stamp.writer, partition)
        expected = last.get(key, -1) + 1
        if stamp.number > expected:
            problems.append(f"gap: {stamp} is at {offset}, number {expected} is not before it")
        elif stamp.number < expected - 1:
            problems.append(f"order: {stamp} is at {offset}, after number {expected - 1}")
        last[key] = max(stamp.number, last.get(key, -1))
    return problems
