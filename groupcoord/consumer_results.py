"""What members of consumer groups are answered."""

from collections.abc import Sequence
from dataclasses import dataclass

from groupcoord.assignment import TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Sequence[TopicPartitions] | None = None  # None: as it was
