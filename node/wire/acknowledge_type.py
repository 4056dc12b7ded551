"""The ways to acknowledge a record of a share group (KIP-932), by their numbers in messages."""

from enum import IntEnum


class AcknowledgeType(IntEnum):
    """The acknowledgement of a record that a member has acquired."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
