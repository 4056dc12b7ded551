"""The phases of a heartbeat that the coordinator may hold (`held_heartbeats`)."""

from enum import Enum


class HeartbeatPhase(Enum):
    ARRIVED = "arrived"  # it has just arrived
    WOKEN = "woken"  # it was held, and its member may have something to learn
    DUE = "due"  # it was held, and must be answered now
