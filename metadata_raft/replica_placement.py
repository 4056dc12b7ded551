"""Chooses the brokers that hold the replicas of new partitions. Pure.

The goals are those of Apache Kafka's striped placement, in its order: replicas are spread over racks
(KIP-36), then over brokers; fenced brokers come last and never lead. Leaders are taken from the racks in
turn, each rack's brokers in order, moving on by one from partition to partition. They begin with the brokers
that lead least (`LeaderSpread`); among several such beginnings `seed` decides. Followers come from the racks
with the fewest replicas of the partition, and rotate by one in each round, so that the partitions of one
leader do not all have the same followers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from types import MappingProxyType

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import BrokerImage
from ottla.metadata_raft.leader_spread import LeaderSpread


def place_replicas(
    brokers: Sequence[BrokerImage],
    *,
    first_partition: int,
    count: int,
    replication_factor: int,
    seed: int,
    spread: LeaderSpread,
    of_topic: Mapping[int, int] = MappingProxyType({}),
) -> list[tuple[int, ...]]:
    """Return the brokers of `count` partitions, leader first; INVALID_REPLICATION_FACTOR if too few.

    `brokers` are the registered brokers; those in controlled shutdown get no replicas. `of_topic` has the
    number of the topic's partitions that each broker leads already.
    """
    usable = [broker for broker in brokers if broker.fenced or broker.is_active]
    if replication_factor > len(usable):
        raise _unable(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only"
            f" {len(usable)} broker(s) are registered.",
        )
    leaders = _interleaved_by_rack([broker for broker in usable if not broker.fenced])
    if not leaders:
        raise _unable(replication_factor, "All brokers are currently fenced.")
    spare = _interleaved_by_rack([broker for broker in usable if broker.fenced])
    # A small cluster has few different placements, which repeat in the same order.
    period = len(leaders) * max(1, len(leaders) - 1) * max(1, len(spare))
    start = seed + first_partition
    # All brokers lead equally many, except for the remainder of the last round.
    ring = [broker.broker_id for broker in leaders]
    least_led = spread.least_led(ring, start % len(ring), count % len(ring), of_topic)
    start += (least_led - start) % len(ring)
    replicas = [
        _replicas(leaders, spare, _place(leaders, spare, one), replication_factor)
        for one in range(start, start + min(count, period))
    ]
    return replicas if count <= period else list(islice(cycle(replicas), count))


def _place(leaders: Sequence[BrokerImage], spare: Sequence[BrokerImage], start: int) -> tuple[int, int, int]:
    """Return the starting index of each choice for a partition: leader, followers, fenced brokers.

    The followers rotate by one from round to round, so that the load of a failed leader is spread.
    """
    turn = (start // len(leaders)) % max(1, len(leaders) - 1)
    return start % len(leaders), turn, start % max(1, len(spare))


def _replicas(
    leaders: Sequence[BrokerImage],
    spare: Sequence[BrokerImage],
    place: tuple[int, int, int],
    replication_factor: int,
) -> tuple[int, ...]:
    first, turn, first_spare = place
    others = [leaders[(first + offset) % len(leaders)] for offset in range(1, len(leaders))]
    candidates = [*others[turn:], *others[:turn]]
    candidates += [spare[(first_spare + offset) % len(spare)] for offset in range(len(spare))]
    chosen = [leaders[first]]
    used = Counter((leaders[first].rack,))
    while len(chosen) < replication_factor:
        follower = min(candidates, key=lambda broker: (used[broker.rack], broker.fenced))
        candidates.remove(follower)
        chosen.append(follower)
        used[follower.rack] += 1
    return tuple(broker.broker_id for broker in chosen)


def _interleaved_by_rack(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.broker_id)):
        racks.setdefault(broker.rack or "", []).append(broker)
    columns = list(racks.values())
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _unable(replication_factor: int, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )
