"""The history of transactions while nodes fail, and a checker of its rules.

Each transaction sends one record to each of some partitions. The rules, for readers of committed records:

- all records of a committed transaction are there, each once;
- no record of an aborted transaction was ever there;
- of a transaction whose result is unknown, all records are there or none;
- a record that was read at an offset is still there at the end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

MAX_PROBLEMS = 20  # of each kind


class TransactionOutcome(Enum):
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


ReadRecord = tuple[int, int, TransactionStamp]  # partition, offset


@dataclass(slots=True)
class TransactionHistory:
    """The transactions and their outcomes; several threads fill it, each only with its own transactions."""

    partitions: dict[TransactionStamp, Sequence[int]] = field(default_factory=dict)
    outcomes: dict[TransactionStamp, TransactionOutcome] = field(default_factory=dict)
    read: list[ReadRecord] = field(default_factory=list)  # read by a read_committed consumer during the run
    failures: Counter[str] = field(default_factory=Counter)  # of calls, by error

    def problems(self, log: Sequence[ReadRecord]) -> list[str]:
        """Return the violations of the rules by `log`, which is all committed records at the end."""
        partitions_of: dict[TransactionStamp, list[int]] = {}
        for partition, _, stamp in log:
            partitions_of.setdefault(stamp, []).append(partition)
        problems = [
            f"never sent: {stamp} is in partitions {found}"
            for stamp, found in partitions_of.items()
            if stamp not in self.partitions
        ][:MAX_PROBLEMS]
        for outcome in TransactionOutcome:
            wrong = [
                f"{outcome.value}: {stamp} went to {sorted(wanted)}"
                f" and is in {sorted(partitions_of.get(stamp, ()))}"
                for stamp, wanted in self.partitions.items()
                if self.outcomes[stamp] is outcome
                and not _is_consistent(outcome, wanted, partitions_of.get(stamp, ()))
            ]
            problems += wrong[:MAX_PROBLEMS]
        place: Mapping[tuple[int, int], TransactionStamp] = {one[:2]: one[2] for one in log}
        problems += [
            f"changed: {stamp} was shown at {partition}/{offset}, now {place.get((partition, offset))}"
            for partition, offset, stamp in self.read
            if place.get((partition, offset)) != stamp
        ][:MAX_PROBLEMS]
        return problems


def _is_consistent(outcome: TransactionOutcome, wanted: Sequence[int], found: Sequence[int]) -> bool:
    is_complete = sorted(wanted) == sorted(found)
    match outcome:
        case TransactionOutcome.COMMITTED:
            return is_complete
        case TransactionOutcome.ABORTED:
            return not found
        case TransactionOutcome.UNKNOWN:
            return is_complete or not found
