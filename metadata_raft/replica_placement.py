"""Which brokers hold the replicas of a new partition: a pure choice.

Brokers are taken rack by rack in turn (KIP-36), each rack's brokers in order, beginning where `seed` says;
the first replica moves on by one from partition to partition, and its followers by one more in each round, so
that the partitions of one leader do not all share the same followers.
"""

from collections.abc import Sequence

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
    placed = []
    for partition in range(first_partition, first_partition + count):
        start = seed + partition
        step = 1 + (start // len(active)) % max(len(active) - 1, 1)
        placed.append(_replicas(active, fenced, start, step, replication_factor))
    return placed


def _replicas(
    active: Sequence[int], fenced: Sequence[int], start: int, step: int, replication_factor: int
) -> tuple[int, ...]:
    first = start % len(active)
    others = [active[(first + offset) % len(active)] for offset in range(1, len(active))]
    # Rotating the followers, rather than striding over them, keeps neighbours in different racks.
    turn = (step - 1) % len(others) if others else 0
    candidates = [active[first], *others[turn:], *others[:turn]]
    candidates += [fenced[(start + offset) % len(fenced)] for offset in range(len(fenced))]
    return tuple(candidates[:replication_factor])


def _interleaved_by_rack(brokers: Sequence[BrokerImage]) -> list[int]:
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.broker_id)):
        racks.setdefault(broker.rack or "", []).append(broker.broker_id)
    columns = list(racks.values())
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _unable(replication_factor: int, reason: str) -> str:
    return f"Unable to replicate the partition {replication_factor} time(s): {reason}"
