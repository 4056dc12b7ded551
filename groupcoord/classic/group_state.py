"""The five states of a classic group and the one table of their moves.

    EMPTY ◄──────────────────────────┐
      │ a member joins                │ no member is left
      ▼                               │
    PREPARING_REBALANCE ──────────────┘
      │ all have joined, or time is over        ▲
      ▼                                         │ a member joins, leaves or is silent
    COMPLETING_REBALANCE ───────────────────────┤
      │ the leader's assignment is committed    │
      ▼                                         │
    STABLE ─────────────────────────────────────┘

From each of them a group goes to DEAD when it is deleted or changes its protocol.
"""

from enum import Enum


class GroupState(Enum):
    """The state of a classic group; the value is the name that clients see."""

    EMPTY = "Empty"  # no members; it may hold offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waiting for all members to join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waiting for the leader's assignment
    STABLE = "Stable"  # every member can have its assignment
    DEAD = "Dead"  # deleted, or a group of another protocol; also shown for a group that does not exist


# From each state to the states that may follow it.
MOVES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
# The states that a record can have, which replay gives to a group in any state: a rebalance under way is soft
# state, and the log has only the results of rebalances.
RECORDED = frozenset({GroupState.EMPTY, GroupState.STABLE})
