"""An attack: its name, its requests, and its limits in CPU seconds and MiB, and for a few in wall time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from attacks.nodes import Nodes
from attacks.secured_access import Role

# The limit of each turn of the event loop, whatever is sent: no other client waits longer for its turn.
LONGEST_TURN_S: Final = 0.05
# The limit of the growth of a node's memory beyond its size with the good client alone.
GROWTH_MIB: Final = 96.0


def nothing(nodes: Nodes) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An attack.

    `send` carries it out and returns a summary of the responses; an AssertionError counts as an exceeded
    limit. `cpu_s` is the CPU time of the node, or of all three, beyond the cost of the good client. `prepare`
    runs before the measurement starts. An attack with `settings` needs nodes of its own.
    """

    name: str
    sends: str
    send: Callable[[Nodes], str]
    cpu_s: float
    growth_mib: float = GROWTH_MIB
    turn_s: float = LONGEST_TURN_S
    prepare: Callable[[Nodes], None] = nothing
    settings: Mapping[str, str] = field(default_factory=dict)
    is_thorough: bool = False  # only in a thorough run of the tests
    is_scripts_alone: bool = False  # judged by wall time as well, so the tests leave it out
    is_secure: bool = False  # needs secured nodes; `prepare` runs as their administrator
    role: Role = Role.ADMINISTRATOR  # the attacker of secured nodes
    node_counts: tuple[int, ...] = (1, 3)  # the cluster sizes on which it makes sense
