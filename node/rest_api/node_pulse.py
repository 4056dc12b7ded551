"""The pulse of a node's loop: the time of its last beat, and the state of the node then.

The loop writes the pulse, and the threads of the probes only read it: a part of the node that hangs cannot
delay an answer, and a loop that hangs shows by the age of its pulse. Pure: time is an argument.
"""

from typing import Final, NamedTuple

from ottla.node.node_state import NodeState
from ottla.node.rest_api.readiness import NodeStatus, problem_of

PERIOD_S: Final = 0.5  # between two beats
# The time-out of the REST API for an answer of the loop (`node_facts`), and one beat that was just missed.
MAX_AGE_S: Final = 2.0 + PERIOD_S
ALIVE: Final = "The process is running and its event loop responds."
READY: Final = "The node serves clients and its replicas are in sync."


class Beat(NamedTuple):
    """One beat of the loop, at a time of the monotonic clock."""

    at_s: float
    state: NodeStatus


class NodePulse:
    """Written on the node's loop and read in any thread: each beat replaces the previous one as a whole."""

    def __init__(self, node: NodeState) -> None:
        self.last: Beat | None = None
        self._node = node

    def beat(self, now_s: float, state: NodeStatus) -> None:
        self.last = Beat(now_s, state)

    def why_dead(self, now_s: float) -> str | None:
        """Return a sentence that says why the node is not alive, or None if its loop turns."""
        if self.last is None:
            return "The event loop of the node has not started yet."
        age_s = now_s - self.last.at_s
        if age_s > MAX_AGE_S:
            return f"The event loop of the node has not responded for {age_s:.1f} s."
        return None

    def why_not_ready(self, now_s: float) -> str | None:
        """Return a sentence that says why the node should get no clients, or None if it is ready."""
        dead = self.why_dead(now_s)
        if dead is not None:
            return dead
        assert self.last is not None
        problem = problem_of(self.last.state, has_caught_up=self._node.has_caught_up)
        if problem is None:
            self._node.has_caught_up = True
        return problem
