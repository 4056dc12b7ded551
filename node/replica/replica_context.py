"""The functions of a node that its partitions use: time, liveness of brokers, ISR proposals and flushes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla.logstore.partition_log import PartitionLog
from ottla.node.replica.isr import Eligible, IsrProposal

# a partition, as the argument of `propose`
P = TypeVar("P")


@dataclass(slots=True, kw_only=True)
class ReplicaContext(Generic[P]):
    """The context that all partitions of a node share."""

    broker_id: int
    now_ms: Callable[[], int]  # a clock that only goes forward
    max_lag_ms: Callable[[], int]  # replica.lag.time.max.ms
    broker_epoch: Callable[[], int]  # this node's own
    is_alive: Callable[[int], bool]
    is_eligible: Eligible
    is_current: Callable[[int, int], bool]  # returns True unless a newer process of that broker is known
    propose: Callable[[P, IsrProposal], None]
    flush_soon: Callable[[PartitionLog], None]  # makes the present content of a log durable
    is_fenced: bool = False  # true while the cluster may have given this node's partitions to others


def standalone_context(broker_id: int) -> ReplicaContext[Any]:
    """Return the context of a node that is the only one of its cluster."""
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
