"""Completion of `ottla` in bash, zsh and fish: a script for the shell, which runs `ottla` for the candidates.

Typer has the scripts and the candidates. Its own options detect the shell from the parent process and accept
no name, which does not work in a Dockerfile or a package; these options do both.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, get_args

import typer

from ottla.node.cli.failure import EXIT_USAGE, CommandError

Shell = Literal["bash", "zsh", "fish"]
INSTALL: Final = "--install-completion"
SHOW: Final = "--show-completion"
PROGRAM: Final = "ottla"
COMPLETE_VARIABLE: Final = "_OTTLA_COMPLETE"  # set by the scripts


def answer_shells(environment: Mapping[str, str] = os.environ) -> None:
    """Prepare Typer to answer the script of a shell, if that started this process."""
    if COMPLETE_VARIABLE in environment:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def with_shell(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the arguments; a bare completion option gets the user's own shell as its value."""
    is_bare = words[:1] in ([INSTALL], [SHOW]) and (len(words) == 1 or words[1].startswith("-"))
    return [words[0], own_shell(environment), *words[1:]] if is_bare else list(words)


def own_shell(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the user's shell; CommandError for a shell without completion."""
    name = Path(environment.get("SHELL", "")).name
    if name not in get_args(Shell):
        raise CommandError(
            f"There is no completion for {name or 'an unknown shell, as $SHELL is not set'}:"
            f" name one of {', '.join(get_args(Shell))}.",
            EXIT_USAGE,
        )
    return name


def show_completion(shell: str | None) -> None:
    """Print the script of a shell, and exit."""
    if shell is not None:
        from typer.completion import get_completion_script  # type: ignore[attr-defined]

        print(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell))
        raise typer.Exit


def install_completion(shell: str | None) -> None:
    """Write the script where the shell finds it, and exit."""
    if shell is not None:
        from typer.completion import install  # type: ignore[attr-defined]

        try:
            _, path = install(shell=shell, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from None
        print(f"{path} completes {PROGRAM} in each {shell} that starts from now on.")
        raise typer.Exit
