"""`ottla profile ...`: the commands and their options; `profile_commands` runs them."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.node.cli.command_options import Output, exit_with
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.profile_option import complete_profiles

profile = typer.Typer(no_args_is_help=True, help="Save connections to clusters under names, and choose one.")
NewName = Annotated[str, typer.Argument(metavar="NAME")]
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_profiles)]
OptionalName = Annotated[str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_profiles)]
Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SETTING=VALUE|SECRET]...", help="settings of Kafka's clients"),
]
Servers = Annotated[
    str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT,...", help="brokers to contact first")
]
Rest = Annotated[
    str | None, typer.Option("--rest", metavar="URL", help="the REST API of a node, which `ottla rest` asks")
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="take bootstrap.servers, rest.url, security.protocol, ssl.* and sasl.* from this file",
    ),
]
Named = Annotated[str | None, typer.Option("--profile", envvar="OTTLA_PROFILE", hidden=True)]


@profile.command("list")
def profile_list(named: Named = None, output: Output = "text") -> None:
    """List all profiles."""
    import ottla.node.cli.profile_commands as commands

    exit_with(commands.list_all(named, as_json=output == "json"))


@profile.command("create")
def profile_create(
    name: NewName,
    settings: Settings = None,
    servers: Servers = None,
    rest: Rest = None,
    file: FromFile = None,
    use: Annotated[bool, typer.Option("--use", help="use it for all commands from now on")] = False,
    output: Output = "text",
) -> None:
    """Create a profile: addresses of brokers and of the REST API, and the settings of TLS and logins.

    A profile is kept in ~/.config/ottla/profiles.json, which only you can read. A secret, such as
    sasl.jaas.config, is named without a value, and then typed or given on standard input.

    Examples:

        ottla profile create local --bootstrap localhost:9092 --rest http://localhost:8082 --use

        ottla profile create production --from client.properties
    """
    import ottla.node.cli.profile_commands as commands

    given = commands.settings_from(settings or [], bootstrap=servers, rest=rest, file=file)
    exit_with(commands.create(name, given, is_used=use, as_json=output == "json"))


@profile.command("set")
def profile_set(
    name: Name,
    settings: Settings = None,
    servers: Servers = None,
    rest: Rest = None,
    file: FromFile = None,
    reset: Annotated[
        list[str] | None,
        typer.Option("--reset", metavar="SETTING", help="remove a setting; repeatable"),
    ] = None,
    output: Output = "text",
) -> None:
    """Change settings of a profile.

    Example: ottla profile set production ssl.truststore.location=ca.pem sasl.jaas.config
    """
    import ottla.node.cli.profile_commands as commands

    if not settings and servers is None and rest is None and file is None and not reset:
        raise CommandError("Name a setting, or use --bootstrap, --rest, --from or --reset.", EXIT_USAGE)
    given = commands.settings_from(settings or [], bootstrap=servers, rest=rest, file=file)
    exit_with(commands.change(name, given, reset or [], as_json=output == "json"))


@profile.command("use")
def profile_use(
    name: OptionalName = None,
    none: Annotated[bool, typer.Option("--none", help="use no profile")] = False,
    output: Output = "text",
) -> None:
    """Choose the profile of all commands that name no cluster.

    Options and OTTLA_BOOTSTRAP or OTTLA_CONFIG come first; --profile and OTTLA_PROFILE choose another one.
    """
    import ottla.node.cli.profile_commands as commands

    if (name is None) != none:
        raise CommandError("Give either the name of a profile or --none.", EXIT_USAGE)
    exit_with(commands.use(name, as_json=output == "json"))


@profile.command("current")
def profile_current(named: Named = None, output: Output = "text") -> None:
    """Print the name of the profile in use; the exit code is 1 if there is none."""
    import ottla.node.cli.profile_commands as commands

    exit_with(commands.current(named, as_json=output == "json"))


@profile.command("show")
def profile_show(name: OptionalName = None, named: Named = None, output: Output = "text") -> None:
    """Show the settings of a profile, by default of the one in use; secrets are hidden."""
    import ottla.node.cli.profile_commands as commands

    exit_with(commands.show(name or named, as_json=output == "json"))


@profile.command("delete")
def profile_delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", autocompletion=complete_profiles)],
    output: Output = "text",
) -> None:
    """Delete profiles."""
    import ottla.node.cli.profile_commands as commands

    exit_with(commands.delete(names, as_json=output == "json"))
