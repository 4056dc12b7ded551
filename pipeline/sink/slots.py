"""The names of a sink's transactions: few of them, and each with one meaning.

With `T` the option `transactional.id`:

    T-c         coordinates; its commit is the decision over a batch, its epoch shows the newest driver
    T-t         gives tickets: each InitProducerId of it returns a number that is given only once
    T-l         numbers the incarnations: each process of a driver that plans batches gets one
    T-L-S       writes: slot S of incarnation L, held by one attempt of one task at a time

An incarnation has slots of its own, so requests still under way from a dead driver never meet those of the
next.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.pipeline.columns.producer_pair import ProducerPair

# A number is reused after this many: requests that a driver sent that long ago have arrived or never will.
INCARNATIONS: Final = 64
# Slots from here on are for attempts beyond the prepared slots, numbered by their tickets.
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

    def id_of_slot(self, slot: Slot) -> str:
        """Return the transactional id of a slot."""
        return f"{self.group_id}-{slot.incarnation}-{slot.number}"

    def slots_among(self, names: Iterable[str]) -> set[Slot]:
        """Return the slots of this id among the names: `a-1-2-3` belongs to the id `a-1`, not to `a`."""
        found = (self._slot.fullmatch(name) for name in names)
        return {Slot(int(match[1]), int(match[2])) for match in found if match}


def incarnation_of(pair: ProducerPair) -> int:
    """Return the number of the incarnation that was given this pair of `T-l`."""
    return pair.epoch % INCARNATIONS


def tickets_between(first: ProducerPair, last: ProducerPair) -> int | None:
    """Return the number of tickets between two; None if epochs were exhausted in between."""
    return last.epoch - first.epoch - 1 if first.producer_id == last.producer_id else None
