"""The reference of commands, from the commands themselves."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import typer

from ottla.node.cli.app import app
from ottla.node.tools import dump_log

DUMP = "ottla log dump"  # reads its options itself, as `scripts/dump-log` does
HEAD = """# Command reference

Generated from the commands of this version. `--help` of each command says the same. Shells can
[complete them](../install.md#shell-completion).

"""


def commands_page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    context = command.make_context("ottla", [], resilient_parsing=True)
    return HEAD + "".join(_sections(command, context, "ottla", level=2))


def _sections(command: Any, context: Any, name: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`\n\n{_words(command.help or '')}\n\n"
    if hasattr(command, "list_commands"):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            below = type(context)(found, info_name=child, parent=context)
            yield from _sections(found, below, f"{name} {child}", level=min(level + 1, 4))
        return
    if name == DUMP:
        yield f"```text\n{_help_of_dump()}```\n\n"
        return
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f"```text\n{' '.join(usage.split())}\n```\n\n"
    records = [
        one for one in (param.get_help_record(context) for param in command.get_params(context)) if one
    ]
    yield "| option | meaning |\n|---|---|\n"
    for names, words in records:
        if not names.startswith("-h, "):
            yield f"| `{_code(names)}` | {_cell(words)} |\n"
    yield "\n"


def _help_of_dump() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        dump_log.main(["--help"], program=DUMP)
    return printed.getvalue()


def _words(text: str) -> str:
    """Return the help of a command in Markdown, with its examples as code."""
    shown = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.replace("\b", "").strip("\n")
        is_code = lines.startswith("    ") or lines.lstrip().startswith(("ottla ", "printf "))
        one, colon, example = lines.strip().partition("Example: ")
        if is_code:
            shown.append(f"```text\n{' '.join(lines.split())}\n```")
        elif colon and not one:
            shown.append(f"```text\n{' '.join(example.split())}\n```")
        else:
            shown.append(_cell(" ".join(lines.split())))
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return _code(text).replace("<", "&lt;")


def _code(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
