"""An attack: its name, what it sends, and what it may cost in CPU seconds and MiB, never in wall time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from attacks.nodes import Nodes
from attacks.secured_access import Role

# Each turn of the loop, whatever is sent: nobody waits longer for the loop's sake.
LONGEST_TURN_S: Final = 0.05
# Growth of a node's memory beyond what it has with the good client alone.
GROWTH_MIB: Final = 96.0


def nothing(nodes: Nodes) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`send` does it and says in a few words what was answered; an AssertionError there is a missed limit.

    `cpu_s`: of the node, or of all three, beyond what the good client costs. `prepare` runs before anything
    is measured. An attack with `settings` needs nodes of its own.
    """

    name: str
    sends: str
    send: Callable[[Nodes], str]
    cpu_s: float
    growth_mib: float = GROWTH_MIB
    turn_s: float = LONGEST_TURN_S
    prepare: Callable[[Nodes], None] = nothing
    settings: Mapping[str, str] = field(default_factory=dict)
    is_thorough: bool = False  # left to a thorough run of the tests
    is_scripts_alone: bool = False  # judged by a clock as well, so it is none of the tests
    is_secure: bool = False  # needs secured nodes; `prepare` runs as their administrator
    role: Role = Role.ADMINISTRATOR  # who attacks secured nodes
    node_counts: tuple[int, ...] = (1, 3)  # on how many nodes it makes sense
