"""Divides the memory that clients can make a node hold among its parts.

The process may use `ottla.memory.max.bytes`, or the limit of the cgroup or the machine. `BUDGET_SHARE` of
that is the budget for clients; the rest is for the interpreter, the metadata, the logs' indexes, and memory
that the allocator does not return. Each part has a share of the budget, up to what it can make use of: beyond
that, more memory is no faster. A small pod has less of each.

Each part decides what happens at its limit: receive buffers and large requests wait, fetches get a single
batch, sessions and members are rejected, and producers that were silent for long are removed.
"""

from dataclasses import dataclass, fields
from typing import Final

MIN_MEMORY_BYTES: Final = 64 * 1024 * 1024  # of the process; an idle node uses about as much
BUDGET_SHARE: Final = 0.6
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """The maximum bytes of each part; fields have their names in metrics."""

    receive_buffers: int  # of requests that arrive or are being served
    large_requests: int  # requests with very many elements, as objects, while they are served
    unsent_answers: int  # for clients that do not read fast enough
    receive_windows: int  # in the kernel, for clients that send large frames
    send_buffers: int  # in the kernel, for clients that read much
    fetch_sessions: int  # of consumers and followers, and the sessions of share groups' members
    groups_and_ids: int  # groups without their members and offsets, and transactional ids
    group_members: int  # with their protocols, subscriptions and assignments
    committed_offsets: int  # of groups, including those pending in transactions
    share_states: int  # of share-partitions, at their coordinators
    producer_states: int  # of idempotent producers, in each partition they wrote to
    opened_batches: int  # recompressed batches, until they are appended
    cleaners: int  # keys of logs under compaction
    encoded_answers: int  # cached Metadata responses
    client_metrics: int  # clients that push metrics, with their last push
    history: int  # samples of the last hour, for charts
    rest_bodies: int
    rest_answers: int


# The percentage of the budget, and the most that a part can make use of.
SHARES: Final[dict[str, tuple[int, int]]] = {
    "receive_buffers": (16, 256 * _MIB),
    "large_requests": (10, 1024 * _MIB),
    "unsent_answers": (11, 512 * _MIB),
    "receive_windows": (3, 64 * _MIB),
    "send_buffers": (3, 64 * _MIB),
    "fetch_sessions": (7, 1024 * _MIB),
    "groups_and_ids": (7, 4096 * _MIB),
    "group_members": (11, 1600 * _MIB),
    "committed_offsets": (5, 4096 * _MIB),
    "share_states": (2, 1024 * _MIB),
    "producer_states": (6, 4096 * _MIB),
    "opened_batches": (2, 256 * _MIB),
    "cleaners": (6, 128 * _MIB),
    "encoded_answers": (2, 64 * _MIB),
    "client_metrics": (1, 64 * _MIB),
    "history": (1, 8 * _MIB),
    "rest_bodies": (3, 64 * _MIB),
    "rest_answers": (4, 128 * _MIB),
}


def divide(memory_bytes: int) -> MemoryBudget:
    """Return the limits of all parts for a process with this much memory."""
    budget_bytes = int(memory_bytes * BUDGET_SHARE)
    return MemoryBudget(
        **{name: min(budget_bytes * percent // 100, most) for name, (percent, most) in SHARES.items()}
    )


PARTS: Final = tuple(field.name for field in fields(MemoryBudget))
