"""The states of a member of a consumer group (KIP-848) and the one table of their moves.

                 partitions to give up                    nothing more to wait for
    STABLE ─────────────────────────► UNREVOKED ─────────────────────────────────► STABLE
      │                                   │ ▲                                        ▲
      │ partitions that others still own  │ │ a newer target takes some away         │ all free now
      └────────────────────────────────► UNRELEASED ─────────────────────────────────┘

A target may change at any time, so a member may also stay in its state with other partitions.
"""

from enum import Enum


class MemberState(Enum):
    """The progress of a member to its target; the value stands in its record."""

    STABLE = 0  # has all partitions of its target of that epoch
    UNREVOKED_PARTITIONS = 1  # must give up partitions before it may go to the next epoch
    UNRELEASED_PARTITIONS = 2  # at its target's epoch; some partitions are still with others
    UNKNOWN = 127  # written by a coordinator that knows more states


# From each state to those that a step of the reconciliation may lead to.
MOVES: dict[MemberState, frozenset[MemberState]] = {
    MemberState.STABLE: frozenset(
        {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}
    ),
    MemberState.UNREVOKED_PARTITIONS: frozenset(
        {MemberState.UNREVOKED_PARTITIONS, MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS}
    ),
    MemberState.UNRELEASED_PARTITIONS: frozenset(
        {MemberState.UNRELEASED_PARTITIONS, MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS}
    ),
    MemberState.UNKNOWN: frozenset(
        {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}
    ),
}


def member_state_of(number: int) -> MemberState:
    """Return the state of a record; UNKNOWN for a number that this version does not have."""
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN
