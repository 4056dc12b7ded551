"""How far a heartbeat is that may wait for news."""

from enum import Enum


class HoldPhase(Enum):
    ARRIVED = "arrived"  # it has just come
    RESUMED = "resumed"  # it waited, and there may be news
    OVER = "over"  # it waited, and must be answered now
