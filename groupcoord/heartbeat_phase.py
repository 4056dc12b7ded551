"""The phases of a heartbeat that the coordinator may hold (`held_heartbeats`)."""

from enum import Enum


class HeartbeatPhase(Enum):
    ARRIVED = "arrived"  # it has just come
    WOKEN = "woken"  # it was held, and there may be something to tell its member
    DUE = "due"  # it was held, and must be answered now
