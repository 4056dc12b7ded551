"""The states of a consumer group (KIP-848) and the one table of what each of them means.

A consumer group does not move from state to state: its state follows from its epochs and members, which have
moves of their own (`member_state`), and any state may follow any other. So the table maps facts to states
(D52).
"""

from enum import Enum
from typing import NamedTuple


class ConsumerGroupState(Enum):
    """The state of a consumer group; the value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # no target assignment yet for the newest group epoch
    RECONCILING = "Reconciling"  # not all members have what the target assignment gives them
    STABLE = "Stable"


class Facts(NamedTuple):
    """The facts that decide the state, in order; a fact counts only if all before it hold."""

    has_members: bool
    has_newest_target: bool = False  # the assignment epoch is the group epoch
    is_reconciled: bool = False  # every member is stable, and at the assignment epoch


STATES: dict[Facts, ConsumerGroupState] = {
    Facts(False): ConsumerGroupState.EMPTY,
    Facts(True): ConsumerGroupState.ASSIGNING,
    Facts(True, True): ConsumerGroupState.RECONCILING,
    Facts(True, True, True): ConsumerGroupState.STABLE,
}
