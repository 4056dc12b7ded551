"""The states of a share group, and the one table of what each means: it follows from the members alone."""

from enum import Enum


class ShareGroupState(Enum):
    """The state of a share group; the value is the name that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"


STATES: dict[bool, ShareGroupState] = {  # True: it has members
    False: ShareGroupState.EMPTY,
    True: ShareGroupState.STABLE,
}
