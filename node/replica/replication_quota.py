"""The limits of throttled replication: `leader.` and `follower.replication.throttled.rate` (KIP-73).

The rate is measured over a window of samples, as in Apache Kafka: a sample has the length of the window size,
and the oldest is dropped when there are too many. Only replicas that a topic's
`*.replication.throttled.replicas` names count, and only replicas outside the ISR wait: an in-sync follower
must not leave the ISR because others are copied.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.node.replica.partition import Partition

EVERY_REPLICA: Final = "*"
UNLIMITED: Final = 2**63 - 1


class ReplicationQuota:
    """The replicated bytes of one direction, against a limit."""

    __slots__ = ("_samples", "_window_ms", "_windows", "bytes_per_second")

    def __init__(self, *, bytes_per_second: int, windows: int, window_seconds: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._windows = windows
        self._window_ms = window_seconds * 1000
        self._samples: deque[tuple[int, int]] = deque()  # (start of the sample in ms, bytes)

    @property
    def is_limited(self) -> bool:
        return self.bytes_per_second < UNLIMITED

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were copied now."""
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._window_ms:
            start_ms, before_bytes = samples[-1]
            samples[-1] = (start_ms, before_bytes + size_bytes)
        else:
            samples.append((now_ms, size_bytes))
        self._forget(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Return True if the rate of the last samples is above the limit."""
        if not self.is_limited:
            return False
        self._forget(now_ms)
        samples = self._samples
        if not samples:
            return False
        # As if all samples but the present one were there: a first burst does not count as a rate.
        elapsed_ms = now_ms - samples[0][0]
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        elapsed_ms += max(0, missing) * self._window_ms
        total_bytes = sum(size_bytes for _, size_bytes in samples)
        return total_bytes * 1000 > self.bytes_per_second * max(elapsed_ms, 1)

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._windows * self._window_ms:
            self._samples.popleft()


def is_throttled(replicas: Sequence[str], partition: int, broker_id: int) -> bool:
    """Return True if `*.replication.throttled.replicas` (PARTITION:BROKER, or *) names this replica."""
    return bool(replicas) and (EVERY_REPLICA in replicas or f"{partition}:{broker_id}" in replicas)


class ReplicationQuotas:
    """The quotas of both directions of this node, and of its fetches for replicas that are being added.

    The last one, `moves`, has a limit while the cluster balances itself; it needs no lists of replicas.
    """

    __slots__ = ("_broker_id", "follower", "leader", "moves")

    def __init__(self, *, broker_id: int, windows: int, window_seconds: int) -> None:
        self._broker_id = broker_id
        self.leader = ReplicationQuota(
            bytes_per_second=UNLIMITED, windows=windows, window_seconds=window_seconds
        )
        self.follower = ReplicationQuota(
            bytes_per_second=UNLIMITED, windows=windows, window_seconds=window_seconds
        )
        self.moves = ReplicationQuota(
            bytes_per_second=UNLIMITED, windows=windows, window_seconds=window_seconds
        )

    def configure(
        self,
        *,
        leader_bytes_per_second: int,
        follower_bytes_per_second: int,
        moved_bytes_per_second: int = UNLIMITED,
    ) -> None:
        """Replace the limits."""
        self.leader.bytes_per_second = leader_bytes_per_second
        self.follower.bytes_per_second = follower_bytes_per_second
        self.moves.bytes_per_second = moved_bytes_per_second

    @property
    def limits_fetches(self) -> bool:
        """Return True if anything that this node fetches may have to wait."""
        return self.follower.is_limited or self.moves.is_limited

    def leader_must_wait(self, partition: Partition, replica_id: int, *, now_ms: int) -> bool:
        """Return True if a follower must not be sent records of this partition now."""
        return (
            self.leader.is_limited
            and (partition.isr is None or replica_id not in partition.isr.committed)
            and self._is_throttled_leader(partition)
            and self.leader.is_exceeded(now_ms)
        )

    def leader_sent(self, partition: Partition, size_bytes: int, *, now_ms: int) -> None:
        # Also for in-sync replicas: they do not wait, but they use the bandwidth.
        if self.leader.is_limited and self._is_throttled_leader(partition):
            self.leader.record(size_bytes, now_ms)

    def follower_must_wait(self, partition: Partition, *, is_in_sync: bool, now_ms: int) -> bool:
        """Return True if nothing of this partition may be fetched now."""
        return not is_in_sync and any(quota.is_exceeded(now_ms) for quota in self._quotas_of(partition))

    def follower_received(self, partition: Partition, size_bytes: int, *, now_ms: int) -> None:
        for quota in self._quotas_of(partition):
            quota.record(size_bytes, now_ms)

    def _quotas_of(self, partition: Partition) -> Iterator[ReplicationQuota]:
        """Yield the quotas that apply to fetches of a partition by this node."""
        if self.follower.is_limited and self._is_throttled_follower(partition):
            yield self.follower
        if self.moves.is_limited and self._broker_id in partition.assignment.adding_replicas:
            yield self.moves

    def _is_throttled_leader(self, partition: Partition) -> bool:
        replicas = partition.log.config.leader_replication_throttled_replicas
        return is_throttled(replicas, partition.topic_partition.partition, self._broker_id)

    def _is_throttled_follower(self, partition: Partition) -> bool:
        replicas = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(replicas, partition.topic_partition.partition, self._broker_id)
