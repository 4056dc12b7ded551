"""The history of transactional producers, with the checks that logs and readers agree with it.

A transaction is committed when its commit was answered, undecided as long as no commit was sent, and in doubt
in between. Checked during the run: readers of committed records see no record of an undecided transaction.
Checked at the end: they see all records of a committed transaction, none of an aborted one, and all or none
of one in doubt; and a copied topic has each record once, up to the offset that the group committed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.virtual_loop import SimulationError

Contents = Mapping[TopicPartition, Sequence[bytes]]


class Outcome(Enum):
    """The state of a transaction, as its producer knows it."""

    UNDECIDED = "undecided or aborted"
    IN_DOUBT = "in doubt"
    COMMITTED = "committed"


@dataclass(slots=True, eq=False)
class SentTransaction:
    """A transaction with the records that its producer has sent, by partition."""

    name: str
    outcome: Outcome = Outcome.UNDECIDED
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)


class TxnHistory:
    """The history of all transactions of a run."""

    def __init__(self) -> None:
        self.transactions: list[SentTransaction] = []
        self.epoch_movers: set[int] = set()  # ids of producers whose epoch is bumped at each end
        self._of_value: dict[bytes, SentTransaction] = {}

    def begin(self, name: str) -> SentTransaction:
        self.transactions.append(SentTransaction(name))
        return self.transactions[-1]

    def note_sent(
        self, transaction: SentTransaction, partition: TopicPartition, values: Sequence[bytes]
    ) -> None:
        """Note a batch before it is sent."""
        assert transaction.outcome is Outcome.UNDECIDED, transaction
        transaction.values.setdefault(partition, []).extend(values)
        for value in values:
            self._of_value[value] = transaction

    def committed_count(self) -> int:
        return sum(one.outcome is Outcome.COMMITTED for one in self.transactions)

    # ---- readers -----------------------------------------------------------------------------------------

    def note_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Check a record that a reader of committed records received."""
        transaction = self._of_value.get(value)
        if transaction is None:
            raise SimulationError(f"{partition} shows {value[:24]!r} at {offset}, which was not sent")
        if transaction.outcome is Outcome.UNDECIDED:
            raise SimulationError(
                f"{partition} shows {value[:24]!r} at {offset} to a reader of committed records;"
                f" the transaction {transaction.name} is {transaction.outcome.value}"
            )

    # ---- end ---------------------------------------------------------------------------------------------

    def check_end(self, committed: Contents, all_records: Contents) -> None:
        """Compare with the records that readers of both isolation levels find at the end."""
        visible = {partition: set(values) for partition, values in committed.items()}
        for partition, values in committed.items():
            if len(visible[partition]) < len(values):
                twice = next(one for one, other in pairwise(sorted(values)) if one == other)
                raise SimulationError(f"{partition} shows {twice[:24]!r} twice")
            for offset, value in enumerate(values):
                self.note_read(partition, offset, value)
        for transaction in self.transactions:
            self._check_outcome(transaction, visible)
        for partition, values in all_records.items():
            for value in values:
                of = self._of_value.get(value)
                if of is None:
                    raise SimulationError(f"{partition} has {value[:24]!r}, which was not sent")
                if of.outcome is Outcome.COMMITTED and value not in visible[partition]:
                    raise SimulationError(f"{partition} hides {value[:24]!r}, which {of.name} has committed")

    def _check_outcome(
        self, transaction: SentTransaction, visible: Mapping[TopicPartition, Collection[bytes]]
    ) -> None:
        sent = [(partition, value) for partition, values in transaction.values.items() for value in values]
        is_visible = [value in visible[partition] for partition, value in sent]
        is_wrong = {
            Outcome.UNDECIDED: any(is_visible),
            Outcome.IN_DOUBT: any(is_visible) and not all(is_visible),
            Outcome.COMMITTED: not all(is_visible),
        }[transaction.outcome]
        if is_wrong:
            missing = [
                f"{partition} {value[:16]!r}"
                for (partition, value), is_there in zip(sent, is_visible, strict=True)
                if not is_there
            ]
            raise SimulationError(
                f"{sum(is_visible)} of {len(sent)} records of {transaction.name}"
                f" ({transaction.outcome.value}) are visible; missing are {missing[:6]}"
            )


def check_copies(
    source: TopicPartition,
    originals: Sequence[bytes],
    copies: Collection[bytes],
    committed_offset: int,
    offsets: Sequence[int],
) -> None:
    """Check that records of `source` below the group's offset have one committed copy each, and others none.

    `originals` are the committed records at `offsets`; `copies` are the copies from this source that readers
    see.
    """
    expected = {value for value, offset in zip(originals, offsets, strict=True) if offset < committed_offset}
    found = set(copies)
    if len(found) < len(copies):
        raise SimulationError(f"a record of {source} has been copied twice")
    if found != expected:
        value = min(found ^ expected)
        problem = "has no copy" if value in expected else "has a copy"
        raise SimulationError(
            f"{value[:24]!r} of {source} {problem}; the group is at {committed_offset},"
            f" {len(expected)} of {len(originals)} should be copied, {len(found)} are"
        )
