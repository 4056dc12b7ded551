"""What members of a share group were given and said while nodes died, and what that forbids: the judge.

A delivery is a record that a member was given; it ends when the member says something of it, or crashes. The
rules, for records of one log:

- every record is given to somebody, and again after it was released, or after its member crashed, unless it
  was delivered as often as the limit allows;
- what was accepted or rejected, and answered without an error, is not done with a second time, and is given
  to nobody afterwards;
- no record is delivered more often than the limit allows;
- what was rejected, and answered so, has one dead letter, and nothing has two, nor one without such a reason.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_PROBLEMS = 20  # of a kind
ACCEPT, RELEASE, REJECT = "accept", "release", "reject"


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


@dataclass(slots=True, kw_only=True)
class Delivery:
    """A record that a member was given, and what it said.

    `since_s` is a time at which the leader had certainly not given the record yet; `done_s` is when the
    answer came that what the member said holds, None if none came, or an error.
    """

    place: Place
    member: str
    count: int
    since_s: float
    said: str | None = None
    done_s: float | None = None

    @property
    def ends_it(self) -> bool:
        """Whether nobody is to have the record after this."""
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
        """Return the deliveries after which nobody was to have their record."""
        return [one for some in self.of_record.values() for one in some if one.ends_it]

    def problems(self, places: Iterable[Place]) -> list[str]:
        """Every rule that is broken, with all records of the log at `places`; none: an empty list."""
        found: dict[str, list[str]] = defaultdict(list)
        for place in places:
            for kind, problem in self._of(place, self.of_record.get(place, [])):
                found[kind].append(f"{kind}: {problem}")
        return [one for some in found.values() for one in some[:MAX_PROBLEMS]]

    def letter_problems(self, letters: Sequence[Place]) -> list[str]:
        """Every rule of dead letters that is broken; `letters` are the places of their records."""
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
    """Return whether a delivery was certainly made after the end: its count is higher, or its time later."""
    assert end.done_s is not None
    return one.count > end.count or one.since_s > end.done_s
