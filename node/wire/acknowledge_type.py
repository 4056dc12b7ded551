"""The ways to acknowledge a record of a share group (KIP-932), by the numbers that messages have."""

from enum import IntEnum


class AcknowledgeType(IntEnum):
    """What a member says of a record that it has acquired."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
