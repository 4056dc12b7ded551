"""The names of a sink's transactions: few, and none that two can mean differently.

With `T` the option `transactional.id`:

    T-c         coordinates; its commit is the decision over a batch, its epoch tells the newest driver
    T-t         gives tickets: each InitProducerId of it is a number that nobody else has
    T-l         gives numbers to lives: one to a driver's process that plans batches
    T-L-S       writes: slot S of life L, in the hands of one attempt of one task at a time

A life has slots of its own, so nothing that a dead driver still sends can meet those of its successor.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.pipeline.columns.producer_pair import ProducerPair

# A name is used again after so many lives: what a driver has sent that long ago has arrived or never will.
LIVES: Final = 64
# Slots from here on are those of attempts for which the driver had prepared none, by their tickets.
FIRST_UNPREPARED: Final = 100_000


class Slot(NamedTuple):
    """One slot of one life."""

    life: int
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
        self.lives = f"{transactional_id}-l"
        self._slot = re.compile(rf"{re.escape(transactional_id)}-([0-9]{{1,4}})-([0-9]{{1,7}})")

    def of(self, slot: Slot) -> str:
        return f"{self.group_id}-{slot.life}-{slot.number}"

    def slots_among(self, names: Iterable[str]) -> set[Slot]:
        """Those of the names that are slots of this id: `a-1-2-3` is one of the id `a-1`, not of `a`."""
        found = (self._slot.fullmatch(name) for name in names)
        return {Slot(int(match[1]), int(match[2])) for match in found if match}


def life_of(pair: ProducerPair) -> int:
    """The number of the life that was given this pair of `T-l`."""
    return pair.epoch % LIVES


def tickets_between(first: ProducerPair, last: ProducerPair) -> int | None:
    """How many tickets were given after one and before another; None when epochs ran out in between."""
    return last.epoch - first.epoch - 1 if first.producer_id == last.producer_id else None
