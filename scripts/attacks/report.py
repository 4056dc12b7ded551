"""A table of attacks: the cost of each, and the limits that it exceeded."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attacks.attack import Attack
from attacks.trial import Outcome

COLUMNS = ("attack", "CPU s", "limit", "MiB", "limit", "turn ms", "good p50/p99 ms", "answered", "missed")


def print_outcomes(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print the measurements of each attack, and the limits that it exceeded."""
    table = Table(*COLUMNS)
    for one in outcomes:
        attack, seen = one.attack, one.seen
        table.add_row(
            attack.name,
            f"{one.cpu_s:.2f}",
            f"{attack.cpu_s:g}",
            f"{one.growth_mib:.0f}",
            f"{attack.growth_mib:g}",
            f"{one.turn_s * 1000:.0f}",
            f"{seen.p50_ms:.1f} / {seen.p99_ms:.1f}",
            escape(one.answered),
            escape("; ".join(one.missed)) or "-",
        )
    console.print(table)


def print_list(attacks: Sequence[Attack], console: Console) -> None:
    """Print the name, the requests and the limits of each attack."""
    table = Table("attack", "what it sends", "CPU s", "MiB")
    for one in attacks:
        table.add_row(one.name, escape(one.sends), f"{one.cpu_s:g}", f"{one.growth_mib:g}")
    console.print(table)
