"""Reads passwords from a terminal, a file or standard input, or generates them.

They are never among the arguments, which every user of the machine can see.
"""

import getpass
import secrets
import sys
from pathlib import Path
from typing import Final

from ottla.node.cli.failure import EXIT_USAGE, CommandError

STANDARD_INPUT: Final = "-"
# PLAIN's first message has room for it, and most terminals limit a typed line to 4,095 bytes.
MAX_PASSWORD_BYTES: Final = 1_024
GENERATED_BYTES: Final = 24  # 32 characters
MAX_TRIES: Final = 3  # to type the same password twice


def take_password(user: str, *, file: str | None, generate: bool) -> str:
    """Return the password from the source that the options name, by default the terminal."""
    if generate and file is not None:
        raise CommandError("Give either --generate or --password-file, not both.", EXIT_USAGE)
    if generate:
        return secrets.token_urlsafe(GENERATED_BYTES)
    if file == STANDARD_INPUT:
        return password_in(sys.stdin.buffer.read(MAX_PASSWORD_BYTES + 3), "standard input")
    if file is not None:
        return password_in(_content(file), file)
    return _from_terminal(user)


def password_in(content: bytes, source: str) -> str:
    """Return the single line of a file as a password, without its line break; CommandError if invalid."""
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise CommandError(f"There is no password in {source}: it is empty.", EXIT_USAGE)
    if len(line) > MAX_PASSWORD_BYTES:
        raise CommandError(
            f"The password in {source} is longer than {MAX_PASSWORD_BYTES:,} bytes.", EXIT_USAGE
        )
    if any(byte in line for byte in (b"\n", b"\r", b"\0")):
        raise CommandError(
            f"The password in {source} must be a single line of text; only its end may be a line break.",
            EXIT_USAGE,
        )
    try:
        return line.decode("utf-8-sig")  # without the byte order mark of some editors
    except UnicodeDecodeError:
        raise CommandError(f"The password in {source} is not UTF-8 text.", EXIT_USAGE) from None


def _content(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MAX_PASSWORD_BYTES + 3)
    except OSError as error:
        raise CommandError(f"--password-file {file} cannot be read: {error.strerror}.", EXIT_USAGE) from None


def _from_terminal(user: str) -> str:
    if not sys.stdin.isatty():
        raise CommandError(
            "There is no terminal on which to ask for the password. Use --password-file FILE (- is standard "
            "input), or --generate.",
            EXIT_USAGE,
        )
    for _ in range(MAX_TRIES):
        try:
            first = getpass.getpass(f"New password of {user}: ")
            second = getpass.getpass("Once more: ")
        except EOFError:
            raise CommandError("No password was given.", EXIT_USAGE) from None
        if first == second:
            # A terminal that is not set to UTF-8 yields bytes that are not text.
            return password_in(first.encode(errors="surrogateescape"), "what was typed")
        print("The two passwords differ; try again.", file=sys.stderr)
    raise CommandError("The password was not typed the same way twice.", EXIT_USAGE)
