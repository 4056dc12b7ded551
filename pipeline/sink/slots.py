"""The names of a sink's transactions: few, and none that two can mean differently.

With `T` the option `transactional.id`:

    T-c         coordinates; its commit is the decision over a batch, its epoch tells the newest driver
    T-t         gives tickets: each InitProducerId of it is a number that nobody else has
    T-l         gives a number to each incarnation: to a process of a driver that plans batches
    T-L-S       writes: slot S of incarnation L, in the hands of one attempt of one task at a time

An incarnation has slots of its own, so nothing that a dead driver still sends can meet those of the next.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.pipeline.columns.producer_pair import ProducerPair

# A name is used again after so many: what a driver has sent that long ago has arrived or never will.
INCARNATIONS: Final = 64
# Slots from here on are those of attempts for which the driver had prepared none, by their tickets.
FIRST_UNPREPARED: Final = 100_000


class Slot(NamedTuple):
    """One slot of one incarnation."""

    incarnation: int
    number: int


class Participant(NamedTuple):
    """A transaction that a task wrote in and did not end."""

    slot: Slot
    pair: ProducerPair


class Names:
    """The names that belong to one `transactional.id`."""

    def __init__(self, transactional_id: str) -> None:
        self.group_id = transactional_id
        self.prefix = f"{transactional_id}-"
        self.coordinating = f"{transactional_id}-c"
        self.tickets = f"{transactional_id}-t"
        self.incarnations = f"{transactional_id}-l"
        self._slot = re.compile(rf"{re.escape(transactional_id)}-([0-9]{{1,4}})-([0-9]{{1,7}})")

    def of(self, slot: Slot) -> str:
        return f"{self.group_id}-{slot.incarnation}-{slot.number}"

    def slots_among(self, names: Iterable[str]) -> set[Slot]:
        """Those of the names that are slots of this id: `a-1-2-3` is one of the id `a-1`, not of `a`."""
        found = (self._slot.fullmatch(name) for name in names)
        return {Slot(int(match[1]), int(match[2])) for match in found if match}


def incarnation_of(pair: ProducerPair) -> int:
    """Return the number of the incarnation to which this pair of `T-l` was given."""
    return pair.epoch % INCARNATIONS


def tickets_between(first: ProducerPair, last: ProducerPair) -> int | None:
    """How many tickets were given after one and before another; None when epochs ran out in between."""
    return last.epoch - first.epoch - 1 if first.producer_id == last.producer_id else None
