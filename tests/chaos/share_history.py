"""The history of a share group while nodes fail, and a checker of its rules.

A delivery is a record that a member acquired; it ends when the member acknowledges the record, or crashes.
The rules, for the records of one log:

- every record is delivered, and delivered again after a release or a crash of its member, unless its
  deliveries have reached the limit;
- a record that was accepted or rejected, with a response without an error, is neither acknowledged nor
  delivered again;
- no record is delivered more often than the limit allows;
- a record that was rejected, with such a response, has one dead letter. No record has two, and none has one
  without being rejected or reaching the limit.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_PROBLEMS = 20  # of each kind
ACCEPT, RELEASE, REJECT = "accept", "release", "reject"


class Place(NamedTuple):
    """The partition and offset of a record."""

    partition: int
    offset: int


@dataclass(slots=True, kw_only=True)
class Delivery:
    """A delivery of a record to a member, and the member's acknowledgement.

    The leader delivered the record at `not_before_s` or later. `confirmed_s` is the time of the response that
    confirmed the acknowledgement; None without a response, or with an error.
    """

    place: Place
    member: str
    count: int
    not_before_s: float
    acknowledgement: str | None = None
    confirmed_s: float | None = None

    @property
    def is_final(self) -> bool:
        """Return True if the record must not be delivered again."""
        return self.acknowledgement in (ACCEPT, REJECT) and self.confirmed_s is not None

    @property
    def must_be_redelivered(self) -> bool:
        return self.acknowledgement in (None, RELEASE)


@dataclass(slots=True)
class ShareHistory:
    """All deliveries of one share group, by record."""

    limit: int
    of_record: dict[Place, list[Delivery]] = field(default_factory=lambda: defaultdict(list))

    def add(self, delivery: Delivery) -> None:
        self.of_record[delivery.place].append(delivery)

    def final_deliveries(self) -> list[Delivery]:
        """Return the deliveries after which their records must not be delivered again."""
        return [one for deliveries in self.of_record.values() for one in deliveries if one.is_final]

    def problems(self, places: Iterable[Place]) -> list[str]:
        """Return the violations of the rules; `places` are all records of the log."""
        found: dict[str, list[str]] = defaultdict(list)
        for place in places:
            for kind, problem in self._problems_of(place, self.of_record.get(place, [])):
                found[kind].append(f"{kind}: {problem}")
        return [one for deliveries in found.values() for one in deliveries[:MAX_PROBLEMS]]

    def letter_problems(self, letters: Sequence[Place]) -> list[str]:
        """Return the violations of the rules of dead letters; `letters` are the places of their records."""
        found = Counter(letters)
        problems = [f"letter twice: {place} has {count}" for place, count in found.items() if count > 1]
        for place, deliveries in self.of_record.items():
            ended = {one.acknowledgement for one in deliveries if one.is_final}
            if REJECT in ended and not found[place]:
                problems.append(f"letter lost: {place} was rejected")
            if ACCEPT in ended and found[place]:
                problems.append(f"letter of an accepted record: {place}")
        for place in found:
            deliveries = self.of_record.get(place, [])
            if not any(one.acknowledgement == REJECT or one.count >= self.limit for one in deliveries):
                problems.append(f"letter without a reason: {place}, of {deliveries}")
        return problems[:MAX_PROBLEMS]

    def _problems_of(self, place: Place, deliveries: list[Delivery]) -> list[tuple[str, str]]:
        if not deliveries:
            return [("lost", f"{place} was never delivered")]
        problems = [("limit", f"{one}") for one in deliveries if not 1 <= one.count <= self.limit]
        last = max(deliveries, key=lambda one: (one.count, one.not_before_s))
        ends = [one for one in deliveries if one.is_final]
        if not ends and last.must_be_redelivered and last.count < self.limit:
            problems.append(("lost", f"{place} was not delivered again after {last}"))
        if len(ends) > 1:
            problems.append(("finished twice", f"{ends}"))
        problems += [
            ("delivered after it was finished", f"{later} after {end}")
            for end in ends[:1]
            for later in deliveries
            if later is not end and _is_later(later, end)
        ]
        return problems


def _is_later(one: Delivery, end: Delivery) -> bool:
    """Return True if a delivery is certainly later than the end: its count is higher, or its time later."""
    assert end.confirmed_s is not None
    return one.count > end.count or one.not_before_s > end.confirmed_s
