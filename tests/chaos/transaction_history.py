"""The history of transactions while nodes fail, and a checker of its rules.

Each transaction sends one record to each of some partitions. The rules, for readers of committed records:

- all records of a committed transaction are there, each once;
- no record of an aborted transaction was ever there;
- of a transaction whose result is unknown, all records are there or none;
- a record that was read once stays.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

MAX_PROBLEMS = 20  # of each kind


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class TransactionStamp(NamedTuple):
    """The value of a record: its writer, and the number of the transaction."""

    writer: str
    number: int

    def encode(self) -> bytes:
        return f"{self.writer}/{self.number}".encode()

    @classmethod
    def decode(cls, value: bytes) -> "TransactionStamp":
        writer, _, number = value.decode().rpartition("/")
        return cls(writer, int(number))


Shown = tuple[int, int, TransactionStamp]  # partition, offset


@dataclass(slots=True)
class TransactionHistory:
    """The transactions and their fates; several threads fill it, each only with its own transactions."""

    partitions: dict[TransactionStamp, Sequence[int]] = field(default_factory=dict)
    fates: dict[TransactionStamp, Fate] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)  # read by a read_committed consumer during the run
    failures: Counter[str] = field(default_factory=Counter)  # of calls, by error

    def problems(self, log: Sequence[Shown]) -> list[str]:
        """Return the violations of the rules by `log`, which is all committed records at the end."""
        there: dict[TransactionStamp, list[int]] = {}
        for partition, _, stamp in log:
            there.setdefault(stamp, []).append(partition)
        problems = [
            f"unheard of: {stamp} is in partitions {found}"
            for stamp, found in there.items()
            if stamp not in self.partitions
        ][:MAX_PROBLEMS]
        for fate in Fate:
            wrong = [
                f"{fate.value}: {stamp} went to {sorted(wanted)} and is in {sorted(there.get(stamp, ()))}"
                for stamp, wanted in self.partitions.items()
                if self.fates[stamp] is fate and not _is_right(fate, wanted, there.get(stamp, ()))
            ]
            problems += wrong[:MAX_PROBLEMS]
        place: Mapping[tuple[int, int], TransactionStamp] = {one[:2]: one[2] for one in log}
        problems += [
            f"changed: {stamp} was shown at {partition}/{offset}, now {place.get((partition, offset))}"
            for partition, offset, stamp in self.shown
            if place.get((partition, offset)) != stamp
        ][:MAX_PROBLEMS]
        return problems


def _is_right(fate: Fate, wanted: Sequence[int], found: Sequence[int]) -> bool:
    is_whole = sorted(wanted) == sorted(found)
    match fate:
        case Fate.COMMITTED:
            return is_whole
        case Fate.ABORTED:
            return not found
        case Fate.UNKNOWN:
            return is_whole or not found
