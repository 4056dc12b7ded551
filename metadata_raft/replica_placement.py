"""Which brokers hold the replicas of a new partition: a pure choice.

Leaders are taken rack by rack in turn (KIP-36), each rack's brokers in order, beginning where `seed` says and
moving on by one from partition to partition. Followers come from the racks that have the fewest replicas of
the partition, and turn by one in each round, so that the partitions of one leader do not all share the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.image import BrokerImage


def place_replicas(
    brokers: Sequence[BrokerImage],
    *,
    first_partition: int,
    count: int,
    replication_factor: int,
    seed: int,
) -> list[tuple[int, ...]]:
    """The brokers of `count` partitions, leader first; INVALID_REPLICATION_FACTOR if there are too few.

    `brokers` are the registered ones. Fenced brokers hold replicas only where active ones are not enough, and
    never stand first.
    """
    active = _interleaved_by_rack([broker for broker in brokers if not broker.fenced])
    fenced = _interleaved_by_rack([broker for broker in brokers if broker.fenced])
    if not active:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, _unable(replication_factor, "no broker is up.")
        )
    if replication_factor > len(active) + len(fenced):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            _unable(replication_factor, f"only {len(active) + len(fenced)} broker(s) are registered."),
        )
    racks = {broker.broker_id: broker.rack for broker in brokers}
    placed = []
    for partition in range(first_partition, first_partition + count):
        start = seed + partition
        placed.append(_replicas(active, fenced, racks, start, replication_factor))
    return placed


def _replicas(
    active: Sequence[int],
    fenced: Sequence[int],
    racks: Mapping[int, str | None],
    start: int,
    replication_factor: int,
) -> tuple[int, ...]:
    first = start % len(active)
    others = [active[(first + offset) % len(active)] for offset in range(1, len(active))]
    # From round to round the followers turn by one, so that a leader's load spreads when it falls.
    turn = (start // len(active)) % len(others) if others else 0
    chosen = _over_racks(active[first], [*others[turn:], *others[:turn]], racks, replication_factor)
    spare = [fenced[(start + offset) % len(fenced)] for offset in range(len(fenced))]
    return (*chosen, *spare)[:replication_factor]


def _over_racks(
    leader: int, candidates: list[int], racks: Mapping[int, str | None], replication_factor: int
) -> list[int]:
    """The leader and its followers, each from a rack that has the fewest replicas so far."""
    chosen = [leader]
    used = Counter((racks[leader],))
    while candidates and len(chosen) < replication_factor:
        follower = min(candidates, key=lambda broker_id: used[racks[broker_id]])
        candidates.remove(follower)
        chosen.append(follower)
        used[racks[follower]] += 1
    return chosen


def _interleaved_by_rack(brokers: Sequence[BrokerImage]) -> list[int]:
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.broker_id)):
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    columns = list(racks.values())
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _unable(replication_factor: int, reason: str) -> str:
    return f"Unable to replicate the partition {replication_factor} time(s): {reason}"
