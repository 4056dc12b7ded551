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

    `since_s` is a time at which the leader had certainly not delivered the record yet. `done_s` is the time
    of the response that confirmed the acknowledgement; None without a response, or with an error.
    """

    place: Place
    member: str
    count: int
    since_s: float
    said: str | None = None
    done_s: float | None = None

    @property
    def ends_it(self) -> bool:
        """Return True if the record must not be delivered after this."""
        return self.said in (ACCEPT, REJECT) and self.done_s is not None

    @property
    def must_come_again(self) -> bool:
        return self.said in (None, RELEASE)


@dataclass(slots=True)
class ShareHistory:
    """All deliveries of one share group, by record."""

    limit: int
    of_record: dict[Place, list[Delivery]] = field(default_factory=lambda: defaultdict(list))

    def add(self, delivery: Delivery) -> None:
        self.of_record[delivery.place].append(delivery)

    def ended(self) -> list[Delivery]:
        """Return the deliveries after which their records must not be delivered."""
        return [one for some in self.of_record.values() for one in some if one.ends_it]

    def problems(self, places: Iterable[Place]) -> list[str]:
        """Return the violations of the rules; `places` are all records of the log."""
        found: dict[str, list[str]] = defaultdict(list)
        for place in places:
            for kind, problem in self._of(place, self.of_record.get(place, [])):
                found[kind].append(f"{kind}: {problem}")
        return [one for some in found.values() for one in some[:MAX_PROBLEMS]]

    def letter_problems(self, letters: Sequence[Place]) -> list[str]:
        """Return the violations of the rules of dead letters; `letters` are the places of their records."""
        found = Counter(letters)
        problems = [f"letter twice: {place} has {count}" for place, count in found.items() if count > 1]
        for place, deliveries in self.of_record.items():
            ended = {one.said for one in deliveries if one.ends_it}
            if REJECT in ended and not found[place]:
                problems.append(f"letter lost: {place} was rejected")
            if ACCEPT in ended and found[place]:
                problems.append(f"letter of what was accepted: {place}")
        for place in found:
            deliveries = self.of_record.get(place, [])
            if not any(one.said == REJECT or one.count >= self.limit for one in deliveries):
                problems.append(f"letter without a reason: {place}, of {deliveries}")
        return problems[:MAX_PROBLEMS]

    def _of(self, place: Place, deliveries: list[Delivery]) -> list[tuple[str, str]]:
        if not deliveries:
            return [("lost", f"{place} was given to nobody")]
        problems = [("limit", f"{one}") for one in deliveries if not 1 <= one.count <= self.limit]
        last = max(deliveries, key=lambda one: (one.count, one.since_s))
        ends = [one for one in deliveries if one.ends_it]
        if not ends and last.must_come_again and last.count < self.limit:
            problems.append(("lost", f"{place} did not come again after {last}"))
        if len(ends) > 1:
            problems.append(("done twice", f"{ends}"))
        problems += [
            ("given after it was done", f"{later} after {end}")
            for end in ends[:1]
            for later in deliveries
            if later is not end and _is_later(later, end)
        ]
        return problems


def _is_later(one: Delivery, end: Delivery) -> bool:
    """Return True if a delivery is certainly later than the end: its count is higher, or its time later."""
    assert end.done_s is not None
    return one.count > end.count or one.since_s > end.done_s
