"""Commands that other packages add to `ottla`: the entry points `ottla.commands`, each a Typer app.

So a package of a higher layer adds its commands here without being imported. The entry points are read only
for a name that is not built in, or to list all commands: `ottla start` loads none of them.
"""

from typing import Any, Final

import typer
from typer.core import TyperGroup

from ottla.node.cli.profile_option import add_profile_option
from ottla.node.cli.shell_completion import with_shell

GROUP: Final = "ottla.commands"


class WithAddedCommands(TyperGroup):
    """The built-in commands, then the added ones."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; if completion names no shell, use the user's own."""
        return super().parse_args(ctx, with_shell(args))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_added())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            add_profile_option(own)
        if own is not None or cmd_name not in (added := _added()):
            return own
        command = typer.main.get_command(added[cmd_name].load())
        command.name = cmd_name
        return command


def _added() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
