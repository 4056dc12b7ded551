"""Plans moves of replicas and leaders so that all brokers have equal shares. Pure.

The goals, in this order: leaving brokers are empty, replicas of a partition are spread over racks, disks are
filled equally, brokers have equal numbers of replicas, bytes in, and leaders. A goal needs no moves while
brokers differ little, and a move for one goal does not undo what earlier goals reached. So a balanced cluster
has an empty plan, and after a plan was carried out in part, a new one continues from there.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from ottla.logstore.words.topic_partition import TopicPartition

MAX_MOVES: Final = 1_000  # of one plan
# The difference between most and least that starts moves; they stop at half of it.
FILL_SLACK: Final = 0.1  # of a disk
REPLICAS_SLACK: Final = 0.1  # of the mean, and one replica at least
BYTES_IN_SLACK: Final = 0.2  # of the mean
LEAST_BYTES_IN: Final = 1_000_000.0  # per second; smaller differences do not matter
LEADERS_SLACK: Final = 0.2  # of the mean, and one leader at least
NEARER: Final = 1 - 1e-9  # sums of floats that should be equal may differ a little
STEPS_OF_MOVE: Final = 4
MAX_TRIED: Final = 64  # replicas of each of two brokers that are compared for an exchange


class Goal(Enum):
    """The reason of a move."""

    LEAVING = "a broker that leaves"
    RACKS = "racks"
    DISKS = "disks"
    REPLICAS = "replicas"
    BYTES_IN = "bytes in"
    LEADERS = "leaders"


class BrokerRoom(NamedTuple):
    """A broker that is up, with size (0 if unknown) and usage of its log directories."""

    broker_id: int
    rack: str | None
    disk_bytes: int = 0
    used_bytes: int = 0


class PlacedPartition(NamedTuple):
    """A partition: its replicas, preferred leader first; bytes of one replica, and bytes in per second."""

    topic_partition: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int = 0
    bytes_in: float = 0.0


class BalanceMove(NamedTuple):
    """A partition with its replicas before and after; without bytes to copy, only the order changes."""

    topic_partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    copied_bytes: int
    goal: Goal


class BrokerShare(NamedTuple):
    """The share of a broker.

    The filled fraction of its disks (None: unknown), its replicas and their bytes, bytes in per second,
    leaders.
    """

    fill: float | None
    replicas: int
    size_bytes: int
    bytes_in: float
    leaders: int


class BalancePlan(NamedTuple):
    """The moves in order, and the share of each broker before and after them."""

    moves: Sequence[BalanceMove]
    before: Mapping[int, BrokerShare]
    after: Mapping[int, BrokerShare]

    @property
    def copied_bytes(self) -> int:
        return sum(move.copied_bytes for move in self.moves)

    def least_s(self, max_bytes_per_second: int) -> float:
        """Return the time that the copies take if each broker fetches at the given rate."""
        received: Counter[int] = Counter()
        for move in self.moves:
            added = set(move.after) - set(move.before)
            for broker_id in added:
                received[broker_id] += move.copied_bytes // len(added)
        return max(received.values(), default=0) / max(1, max_bytes_per_second)


def plan_balance(
    brokers: Iterable[BrokerRoom],
    partitions: Iterable[PlacedPartition],
    *,
    leaving: Iterable[int] = (),
    not_leading: Iterable[int] = (),
    pinned: Container[TopicPartition] = (),
    max_moves: int = MAX_MOVES,
) -> BalancePlan:
    """Plan moves among the brokers that are up.

    Partitions with a replica on another broker stay, since their moves could not complete. `pinned`
    partitions stay too, unless one of their brokers leaves: a caller that carries out plan after plan pins
    partitions that moved recently, since different goals may move a partition back and forth.

    Brokers in `not_leading` keep their replicas, but are preferred leaders only if no other broker can be.
    """
    state = _State(list(brokers), list(partitions), frozenset(leaving), pinned, max_moves)
    before = state.shares()
    state.empty_leaving()
    state.spread_over_racks()
    for measure in state.measures():
        state.even_out(measure)
    state.forget_round_trips()
    state.even_out_leaders(frozenset(not_leading))
    return BalancePlan(state.moves(), before, state.shares())


class _Measure(NamedTuple):
    """A quantity that all brokers should have equal amounts of, and the part that a replica has in it."""

    goal: Goal
    values: dict[int, float]
    weight: Callable[[int, int], float]  # of a partition, by its index, on a broker
    slack: float


class _State:
    """The placement of replicas after the moves so far. Partitions are identified by their index."""

    def __init__(
        self,
        brokers: list[BrokerRoom],
        partitions: list[PlacedPartition],
        leaving: frozenset[int],
        pinned: Container[TopicPartition],
        max_moves: int,
    ) -> None:
        self._brokers = {one.broker_id: one for one in sorted(brokers)}
        self._partitions = partitions
        self._replicas = [list(one.replicas) for one in partitions]
        self._leaving = leaving
        self._staying = [broker_id for broker_id in self._brokers if broker_id not in leaving]
        self._left = max_moves
        self._steps = STEPS_OF_MOVE * max_moves  # several steps may change the move of one partition
        self._stuck = {
            index for index, one in enumerate(partitions) if not self._brokers.keys() >= {*one.replicas}
        }
        self._pinned = {
            index for index, one in enumerate(partitions) if one.topic_partition in pinned
        } | self._stuck
        self._goals: dict[int, Goal] = {}  # the first goal of each partition that moves
        self._held: dict[int, dict[int, None]] = {broker_id: {} for broker_id in self._brokers}
        for index, replicas in enumerate(self._replicas):
            for replica in replicas:
                if replica in self._held:
                    self._held[replica][index] = None
        # Disks count only if all brokers report them.
        self._knows_disks = all(one.disk_bytes > 0 for one in self._brokers.values())
        self._bytes = {one: self._bytes_of(one) for one in self._held}  # of the replicas after earlier moves
        self._moved_bytes: Counter[int] = Counter()
        self._done: list[_Measure] = []

    # ---- shares and measures ---------------------------------------------------------------------------

    def shares(self) -> dict[int, BrokerShare]:
        leaders = Counter(replicas[0] for replicas in self._replicas)
        return {
            broker_id: BrokerShare(
                self._fill(broker_id) if self._knows_disks else None,
                len(self._held[broker_id]),
                self._bytes[broker_id],
                sum(self._partitions[index].bytes_in for index in self._held[broker_id]),
                leaders[broker_id],
            )
            for broker_id in self._brokers
        }

    def _bytes_of(self, broker_id: int) -> int:
        return sum(self._partitions[index].size_bytes for index in self._held[broker_id])

    def moves(self) -> list[BalanceMove]:
        """Return the moves by goal, large partitions last, so that most of them are done soon."""
        order = {goal: place for place, goal in enumerate(Goal)}
        found = []
        for index, goal in self._goals.items():
            one, after = self._partitions[index], tuple(self._replicas[index])
            added = len(set(after) - set(one.replicas))
            if after != one.replicas:
                found.append(
                    BalanceMove(one.topic_partition, one.replicas, after, added * one.size_bytes, goal)
                )
        return sorted(found, key=lambda move: (order[move.goal], move.copied_bytes, move.topic_partition))

    def measures(self) -> Iterable[_Measure]:
        """Yield the measures in order; each starts from the placement that the earlier ones reached."""
        partitions, staying = self._partitions, self._staying
        if self._knows_disks:
            disks = {broker_id: self._brokers[broker_id].disk_bytes for broker_id in self._brokers}
            yield _Measure(
                Goal.DISKS,
                {broker_id: self._fill(broker_id) for broker_id in staying},
                lambda index, broker_id: partitions[index].size_bytes / disks[broker_id],
                FILL_SLACK,
            )
        counts = {broker_id: float(len(self._held[broker_id])) for broker_id in staying}
        yield _Measure(
            Goal.REPLICAS, counts, lambda index, broker_id: 1.0, max(1.0, REPLICAS_SLACK * _mean(counts))
        )
        shares = self.shares()
        rates = {broker_id: shares[broker_id].bytes_in for broker_id in staying}
        yield _Measure(
            Goal.BYTES_IN,
            rates,
            lambda index, broker_id: partitions[index].bytes_in,
            max(LEAST_BYTES_IN, BYTES_IN_SLACK * _mean(rates)),
        )

    def _fill(self, broker_id: int) -> float:
        broker = self._brokers[broker_id]
        return (broker.used_bytes + self._moved_bytes[broker_id]) / broker.disk_bytes

    # ---- moves -----------------------------------------------------------------------------------------

    def _move(self, index: int, source: int, target: int, goal: Goal) -> None:
        self._begin(index, goal)
        replicas = self._replicas[index]
        replicas[replicas.index(source)] = target
        size_bytes = self._partitions[index].size_bytes
        if source in self._held:
            del self._held[source][index]
            self._moved_bytes[source] -= size_bytes
            self._bytes[source] -= size_bytes
        self._held[target][index] = None
        self._moved_bytes[target] += size_bytes
        self._bytes[target] += size_bytes
        for measure in self._done:
            if source in measure.values:
                measure.values[source] -= measure.weight(index, source)
            measure.values[target] += measure.weight(index, target)

    def _begin(self, index: int, goal: Goal) -> None:
        self._steps -= 1
        if index not in self._goals:
            self._goals[index] = goal
            self._left -= 1

    def _may_move(self, index: int) -> bool:
        return index not in self._stuck and self._steps > 0 and (self._left > 0 or index in self._goals)

    def _rack(self, broker_id: int) -> str | None:
        broker = self._brokers.get(broker_id)
        return broker.rack if broker is not None else None

    def _best_target(self, index: int, source: int) -> int | None:
        """Return the broker for a replica: in the rack with fewest of the partition, with the most room."""
        others = [replica for replica in self._replicas[index] if replica != source]
        used = Counter(self._rack(replica) for replica in others)
        candidates = [one for one in self._staying if one not in self._replicas[index]]
        return min(
            candidates,
            key=lambda one: (
                used[self._rack(one)],
                self._fill(one) if self._knows_disks else 0.0,
                len(self._held[one]),
                one,
            ),
            default=None,
        )

    def empty_leaving(self) -> None:
        """Move replicas away from leaving brokers, as long as other brokers can take them."""
        for source in sorted(self._leaving & self._held.keys()):
            for index in list(self._held[source]):
                target = self._best_target(index, source) if self._may_move(index) else None
                if target is not None:
                    self._move(index, source, target, Goal.LEAVING)

    def spread_over_racks(self) -> None:
        """Move replicas that share a rack into racks without a replica of their partition."""
        racks = {self._rack(one) for one in self._staying}
        if len(racks) < 2 or None in racks:
            return
        for index, replicas in enumerate(self._replicas):
            while self._may_move(index) and index not in self._pinned:
                used = Counter(map(self._rack, replicas))
                crowded = [one for one in replicas if one in self._held and used[self._rack(one)] > 1]
                if not crowded or len(used) >= min(len(racks), len(replicas)):
                    break
                source = crowded[-1]  # the least preferred
                target = self._best_target(index, source)
                if target is None or used[self._rack(target)]:
                    break
                self._move(index, source, target, Goal.RACKS)

    def even_out(self, measure: _Measure) -> None:
        """Reduce the difference between the most and the least of a measure, if it exceeds the slack."""
        values = measure.values
        self._done.append(measure)
        if len(values) < 2 or _spread(values) <= measure.slack:
            return
        stuck: set[int] = set()
        while self._left > 0 and self._steps > 0:
            source = max((one for one in values if one not in stuck), key=values.__getitem__, default=None)
            if source is None or values[source] - min(values.values()) <= measure.slack / 2:
                return
            found = self._best_move(measure, source) or self._best_exchange(measure, source)
            if not found:
                stuck.add(source)
            for index, giver, taker in found:
                self._move(index, giver, taker, measure.goal)

    def _best_move(self, measure: _Measure, source: int) -> list[tuple[int, int, int]]:
        """Return the replica of a broker and its target, so that the two brokers become most equal.

        Among equal replicas, it is the one whose size is nearest to the difference of the brokers in bytes
        divided by that in replicas.
        """
        for target in self._takers(measure, source):
            difference = measure.values[source] - measure.values[target]
            replicas = len(self._held[source]) - len(self._held[target])
            part = max(0, self._bytes[source] - self._bytes[target]) / max(1, replicas)
            best: tuple[float, float, int] | None = None
            for index in self._held[source]:
                weight = measure.weight(index, source) + measure.weight(index, target)
                if index in self._pinned or not 0 < weight < 2 * difference * NEARER:
                    continue
                size_bytes = self._partitions[index].size_bytes
                rank = (abs(difference - weight), abs(size_bytes - part), index)
                if (best is None or rank < best) and self._keeps_all([(index, source, target)]):
                    best = rank
            if best is not None:
                return [(best[2], source, target)]
        return []

    def _best_exchange(self, measure: _Measure, source: int) -> list[tuple[int, int, int]]:
        """Return two replicas to exchange, for when moving one alone would undo earlier goals."""

        def heavy(broker_id: int, sign: int) -> list[int]:
            """Return the partitions of a broker with the largest (1) or smallest (-1) weight."""
            held = self._held[broker_id].keys() - self._pinned
            return sorted(held, key=lambda one: (-sign * measure.weight(one, broker_id), one))[:MAX_TRIED]

        if measure.goal is not Goal.BYTES_IN:
            return []
        for target in self._takers(measure, source):
            difference = measure.values[source] - measure.values[target]
            best: tuple[float, int, int, int] | None = None
            for index in heavy(source, 1):
                for other in heavy(target, -1):
                    weight = 2 * (measure.weight(index, source) - measure.weight(other, target))
                    if not 0 < weight < 2 * difference * NEARER:
                        continue
                    sizes = self._partitions[index].size_bytes + self._partitions[other].size_bytes
                    rank = (abs(difference - weight), sizes, index, other)
                    if (best is None or rank < best) and self._keeps_all(
                        [(index, source, target), (other, target, source)]
                    ):
                        best = rank
            if best is not None:
                return [(best[2], source, target), (best[3], target, source)]
        return []

    def _takers(self, measure: _Measure, source: int) -> list[int]:
        """Return the brokers with enough less of a measure than `source` to take some of it, least first."""
        values = measure.values
        least = values[source] - measure.slack / 2
        return sorted((one for one in values if values[one] < least), key=lambda one: (values[one], one))

    def _keeps_all(self, moves: Sequence[tuple[int, int, int]]) -> bool:
        """Return True if these moves undo nothing that earlier goals reached."""
        for index, source, target in moves:
            if target in self._replicas[index] or not self._keeps_racks(index, source, target):
                return False
        for measure in self._done[:-1]:
            values, mean = measure.values, _mean(measure.values)
            weights: dict[int, float] = defaultdict(float)
            for index, source, target in moves:
                weights[source] -= measure.weight(index, source)
                weights[target] += measure.weight(index, target)
            least, most = mean - measure.slack / 2, mean + measure.slack / 2
            for one, weight in weights.items():
                # No broker gets farther from the mean than it is now.
                if not min(values[one], least) <= values[one] + weight <= max(values[one], most):
                    return False
        return True

    def _keeps_racks(self, index: int, source: int, target: int) -> bool:
        before = self._replicas[index]
        after = [target if one == source else one for one in before]
        return len({*map(self._rack, after)}) >= len({*map(self._rack, before)})

    def forget_round_trips(self) -> None:
        """Drop the moves of partitions whose replicas ended on their first brokers."""
        for index in list(self._goals):
            before = self._partitions[index].replicas
            if set(self._replicas[index]) == set(before):
                self._replicas[index] = list(before)
                del self._goals[index]

    def even_out_leaders(self, not_leading: frozenset[int]) -> None:
        """Reorder replicas until each broker is the preferred leader of its share, by number and bytes in."""
        leading = [one for one in self._staying if one not in not_leading]
        preferred: dict[int, dict[int, None]] = defaultdict(dict)
        for index, replicas in enumerate(self._replicas):
            preferred[replicas[0]][index] = None
        self._take_leaders(preferred, not_leading, leading)
        counts = {one: float(len(preferred[one])) for one in leading}
        rates = {one: sum(self._partitions[index].bytes_in for index in preferred[one]) for one in leading}
        mean, mean_rate = _mean(counts), _mean(rates)
        if len(counts) < 2 or not mean:
            return

        def weight(index: int) -> float:
            part = 1 / mean
            return (
                part + self._partitions[index].bytes_in / mean_rate if mean_rate >= LEAST_BYTES_IN else part
            )

        values = {one: sum(map(weight, preferred[one])) for one in leading}
        slack = max(1 / mean, LEADERS_SLACK)
        if _spread(values) <= slack:
            return
        stuck: set[int] = set()
        while self._left > 0 and self._steps > 0:
            source = max((one for one in values if one not in stuck), key=values.__getitem__, default=None)
            if source is None or values[source] - min(values.values()) <= slack / 2:
                return
            best: tuple[float, int, int] | None = None
            for index in preferred[source].keys() - self._pinned:
                for target in self._replicas[index][1:]:
                    difference = values[source] - values.get(target, values[source])
                    if weight(index) < difference * NEARER:
                        rank = (abs(difference - 2 * weight(index)) - difference, index, target)
                        best = rank if best is None else min(best, rank)
            if best is None:
                stuck.add(source)
                continue
            _, index, target = best
            self._prefer(index, target, preferred)
            values[source] -= weight(index)
            values[target] += weight(index)

    def _take_leaders(
        self, preferred: dict[int, dict[int, None]], not_leading: frozenset[int], leading: Sequence[int]
    ) -> None:
        """Prefer the brokers of `leading` that lead least, instead of those that shall not lead."""
        for source in sorted(not_leading & preferred.keys()):
            for index in sorted(preferred[source].keys() - self._stuck):
                targets = [one for one in self._replicas[index] if one in leading]
                if targets and self._left > 0 and self._steps > 0:
                    self._prefer(index, min(targets, key=lambda one: len(preferred[one])), preferred)

    def _prefer(self, index: int, target: int, preferred: dict[int, dict[int, None]]) -> None:
        """Make one of its replicas the preferred leader of a partition."""
        self._begin(index, Goal.LEADERS)
        replicas = self._replicas[index]
        source, place = replicas[0], replicas.index(target)
        replicas[0], replicas[place] = target, source
        del preferred[source][index]
        preferred[target][index] = None


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / max(1, len(values))


def _spread(values: Mapping[int, float]) -> float:
    return max(values.values()) - min(values.values())
