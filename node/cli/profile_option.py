"""The option `--profile` of every command that connects to a cluster, and the options that it overrides.

The option is added to all commands that have `--command-config`, so that none of them has to declare it.
"""

from contextvars import ContextVar
from typing import Any, Final

import typer
from typer.core import TyperGroup, TyperOption

PROFILE: Final = "profile"
_PARAMETER: Final = "profile_name"
# The running command; outside of one, as in a test, there is no profile.
_command: ContextVar[typer.Context | None] = ContextVar("command", default=None)


def add_profile_option(command: Any) -> None:
    """Add the option to this command, or to those of this group, unless it is there already."""
    if isinstance(command, TyperGroup):
        for child in command.commands.values():
            add_profile_option(child)
        return
    names = {parameter.name for parameter in command.params}
    if names & {"bootstrap", "url"} and "command_config" in names and _PARAMETER not in names:
        command.params.append(
            TyperOption(
                param_decls=[_PARAMETER, "--profile"],
                type=str,
                envvar="OTTLA_PROFILE",
                metavar="NAME",
                expose_value=False,
                callback=_note,
                autocompletion=lambda context, arguments, begun: complete_profiles(begun),
                help="connect with this profile; see `ottla profile`",
            )
        )


def _note(context: typer.Context, parameter: object, value: str | None) -> str | None:
    context.meta[_PARAMETER] = value
    _command.set(context)
    return value


def forget_command() -> None:
    """Forget the command: the next one in this process names its own profile."""
    _command.set(None)


def named_profile() -> str | None:
    """Return the profile that `--profile` or OTTLA_PROFILE names; None if neither does."""
    context = _command.get()
    found: str | None = None if context is None else context.meta[_PARAMETER]
    return found


def is_outranked(parameter: str) -> bool:
    """Return True if an option is only in the environment, while `--profile` is on the command line."""
    context = _command.get()
    if context is None:
        return False
    return _source(context, _PARAMETER) == "COMMANDLINE" and _source(context, parameter) == "ENVIRONMENT"


def _source(context: typer.Context, parameter: str) -> str:
    found = context.get_parameter_source(parameter)
    return "" if found is None else found.name


def complete_profiles(incomplete: str) -> list[str]:
    """Return the profiles whose names begin with `incomplete`; none if they cannot be read."""
    from ottla.node.cli.failure import CommandError
    from ottla.node.cli.profiles import read_profiles

    try:
        return sorted(name for name in read_profiles().settings if name.startswith(incomplete))
    except CommandError:
        return []
