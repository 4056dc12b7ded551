"""The options that several commands of `ottla` share, and the functions that run a command."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from ottla.node.cli.failure import EXIT_TERMINATED, EXIT_USAGE, CommandError
from ottla.node.process.stop_signals import stop_signals
from ottla.node.tools.closed_pipe import end_quietly

if TYPE_CHECKING:  # imported late, with the client
    from ottla.node.cli.command_config import CommandConfig as Connection
    from ottla.node.client.cluster_client import Client

R = TypeVar("R")

LOCAL = "localhost:9092"
Override = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="override a broker setting; repeatable"),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="OTTLA_BOOTSTRAP",
        metavar="HOST:PORT,...",
        help=f"brokers to contact first (default: those of the command config or profile, or {LOCAL})",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="OTTLA_CONFIG",
        metavar="FILE",
        help="a properties file with the settings of a Kafka client: security.protocol, ssl.*, sasl.*, "
        "bootstrap.servers",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="give up after this long")
]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC...")]
Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Output = Annotated[Literal["text", "json"], typer.Option("--output", help="output format")]
Setting = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="set a topic setting; repeatable"),
]
SetConfig = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="change a setting; repeatable")
]
ResetConfig = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="NAME", help="return a setting to its default; repeatable"),
]
ShowDefaults = Annotated[bool, typer.Option("--all", help="show defaults too")]
ShowDocumentation = Annotated[bool, typer.Option("--documentation", help="explain each setting")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="show what would be done, without doing it")]
CheckOnly = Annotated[bool, typer.Option("--dry-run", help="check the change without making it")]


def run(command: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Run a command and end with its exit code."""
    try:
        code = result_of(command)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has ended
        code = end_quietly()
    exit_with(code)


def exit_with(code: int) -> None:
    """End the command with this exit code."""
    if code:
        raise typer.Exit(code)


def result_of(work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run one part of a command and return its result; between two parts the user may be asked for input.

    A signal such as SIGTERM cancels the work, and then ends the command with EXIT_TERMINATED.
    """
    import asyncio
    import signal

    import uvloop

    async def until_terminated() -> R:
        task = asyncio.current_task()
        assert task is not None
        # As after Ctrl-C: finished work is committed, and the group is left.
        for number in stop_signals():
            if number is not signal.SIGINT:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work()

    try:
        return uvloop.run(until_terminated())
    except asyncio.CancelledError:
        raise typer.Exit(EXIT_TERMINATED) from None


def client_of(bootstrap: str | None, command_config: Path | None, timeout: float) -> "Client":
    """Return the client of a command. It warns of nodes that are cut off from the quorum or do not answer."""
    from ottla.node.cli.command_config import connection_of

    return _client(connection_of(bootstrap, command_config), timeout)


def other_client(
    bootstrap: str | None, command_config: Path | None, profile: str | None, timeout: float
) -> "Client | None":
    """Return the client of a second cluster; None if no option names one."""
    from ottla.node.cli.command_config import other_connection

    if bootstrap is None and command_config is None and profile is None:
        return None
    config = other_connection(bootstrap, command_config, profile)
    if config.bootstrap is None:
        raise CommandError("The other cluster has no address: add --to-bootstrap.", EXIT_USAGE)
    return _client(config, timeout)


def _client(config: "Connection", timeout: float) -> "Client":
    from functools import partial

    from ottla.node.cli.cut_off_warning import warn_if_cut_off, warn_of_silent_nodes
    from ottla.node.client.cluster_client import Client, parse_bootstrap
    from ottla.node.net.peer_client import PeerClient

    try:
        return Client(
            parse_bootstrap(config.bootstrap or LOCAL),
            timeout_s=timeout,
            on_begin=warn_if_cut_off,
            on_end=warn_of_silent_nodes,
            connect=partial(PeerClient.connect, security=config.security),
        )
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def pairs_of(texts: list[str] | None) -> list[tuple[str, str]]:
    """Parse NAME=VALUE texts in their order; a name may be repeated."""
    pairs: list[tuple[str, str]] = []
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise CommandError(f"{text!r} is not NAME=VALUE.", EXIT_USAGE)
        pairs.append((name, value))
    return pairs
