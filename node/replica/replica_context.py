"""What the partitions of a node ask of the node: the time, who lives, and to have an ISR changed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla.logstore.partition_log import PartitionLog
from ottla.node.replica.isr import Eligible, IsrProposal

# A partition, as `propose` is told it.
P = TypeVar("P")


@dataclass(slots=True, kw_only=True)
class ReplicaContext(Generic[P]):
    """One for all partitions of a node."""

    broker_id: int
    now_ms: Callable[[], int]  # of a clock that only goes forward
    max_lag_ms: Callable[[], int]  # replica.lag.time.max.ms
    broker_epoch: Callable[[], int]  # this node's own
    is_alive: Callable[[int], bool]
    is_eligible: Eligible
    is_current: Callable[[int, int], bool]  # whether no newer process of that broker is known
    propose: Callable[[P, IsrProposal], None]
    flush_soon: Callable[[PartitionLog], None]  # make durable what is in a log now
    is_fenced: bool = False  # the cluster may have given this node's partitions to others by now


def lone_context(broker_id: int) -> ReplicaContext[Any]:
    """The context of a node without others."""
    return ReplicaContext(
        broker_id=broker_id,
        now_ms=lambda: 0,
        max_lag_ms=lambda: 30_000,
        broker_epoch=lambda: -1,
        is_alive=lambda _: True,
        is_eligible=lambda _, __: True,
        is_current=lambda _, __: True,
        propose=lambda _, __: None,
        flush_soon=lambda _: None,
    )
