"""One budget of memory for all that clients can make a node hold, divided among its parts.

`ottla.memory.max.bytes`, or the limit of the cgroup or machine, is what the process may have. `BUDGET_SHARE`
of it may be held for clients; the rest is for the interpreter, the metadata, the logs' indexes, and what the
allocator does not give back. Each part has a share of the budget, and no more than it can make use of: a
large machine has the limits that are as fast as any, a small pod less of each.

What a part does at its limit is its own affair: receive buffers and large requests wait, fetches get a single
batch, sessions and members are refused, producers that were silent for long are forgotten.
"""

from dataclasses import dataclass, fields
from typing import Final

MIN_MEMORY_BYTES: Final = 64 * 1024 * 1024  # of the process; an idle node has about as much
BUDGET_SHARE: Final = 0.6
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """The most bytes of each part; the names of the fields are those in metrics."""

    receive_buffers: int  # of requests that arrive or are served
    large_requests: int  # what requests with very many elements become while they are served
    unsent_answers: int  # to clients that do not read fast enough
    receive_windows: int  # of the kernel, for clients that send large frames
    send_buffers: int  # of the kernel, for clients that read much
    fetch_sessions: int  # of consumers and followers, and what members of share groups have here
    groups_and_ids: int  # groups without their members and offsets, and transactional ids
    group_members: int  # with what they offer, subscribe to and are assigned
    committed_offsets: int  # of groups, and those that wait for the end of a transaction
    share_states: int  # of share groups' partitions, by their coordinators
    producer_states: int  # of idempotent producers, in each partition that they wrote to
    opened_batches: int  # of batches that were compressed anew, until they are appended
    cleaners: int  # keys of the logs that are compacted
    encoded_answers: int  # of Metadata, kept for others who ask the same
    client_metrics: int  # clients that push metrics, and what they pushed last
    rest_bodies: int
    rest_answers: int


# In percent of the budget, and the most that a part has any use for.
SHARES: Final[dict[str, tuple[int, int]]] = {
    "receive_buffers": (16, 256 * _MIB),
    "large_requests": (10, 1024 * _MIB),
    "unsent_answers": (12, 512 * _MIB),
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
    "rest_bodies": (3, 64 * _MIB),
    "rest_answers": (4, 128 * _MIB),
}


def divide(memory_bytes: int) -> MemoryBudget:
    """Return the parts of a process that may have so much memory."""
    budget_bytes = int(memory_bytes * BUDGET_SHARE)
    return MemoryBudget(
        **{name: min(budget_bytes * percent // 100, most) for name, (percent, most) in SHARES.items()}
    )


PARTS: Final = tuple(field.name for field in fields(MemoryBudget))
