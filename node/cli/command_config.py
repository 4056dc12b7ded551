"""`--command-config`: a properties file with how a command connects, as Kafka's own tools take it.

Passwords stand in this file, never among the arguments, which other users of a machine can see.
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.old_names import OLD_CLIENT_NAMES, why_old
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.secure_client.client_security import (
    PLAINTEXT,
    ClientSecurity,
    ClientSecurityError,
    read_client_security,
)
from ottla.node.secure_client.security_names import is_of_security
from ottla.node.settings.properties_file import MAX_PROPERTIES_BYTES, parse_properties

BOOTSTRAP: Final = "bootstrap.servers"
MAX_NAMED: Final = 10  # settings in a warning


class CommandConfig(NamedTuple):
    """The security of a command's connections, and the addresses to use if no others are given."""

    bootstrap: str | None = None
    security: ClientSecurity = PLAINTEXT


def read_command_config(path: Path | None) -> CommandConfig:
    """Read the file of `--command-config`; CommandError, with file and setting, for what cannot be honoured.

    Settings without effect are named on stderr, as Kafka's tools do.
    """
    if path is None:
        return CommandConfig()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PROPERTIES_BYTES + 1)
    except OSError as error:
        raise CommandError(f"--command-config {path} cannot be read: {error.strerror}.", EXIT_USAGE) from None
    try:
        given = {name: value.strip() for name, value in parse_properties(content, str(path)).items()}
        security, idle = read_client_security(given)
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail), EXIT_USAGE) from None
    except ClientSecurityError as error:
        raise CommandError(escape_controls(f"{path}: {error}."), EXIT_USAGE) from None
    for name in given:
        if (problem := why_old(name, OLD_CLIENT_NAMES)) is not None:
            raise CommandError(escape_controls(f"{path}: {name} {problem}."), EXIT_USAGE)
    others = [name for name in given if name != BOOTSTRAP and not is_of_security(name)]
    _warn(path, sorted({*idle, *others}), security)
    return CommandConfig(bootstrap=given.get(BOOTSTRAP) or None, security=security)


def _warn(path: Path, names: list[str], security: ClientSecurity) -> None:
    if not names:
        return
    shown = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    protocol = f" (security.protocol is {security.protocol})" if any(map(is_of_security, names)) else ""
    print(
        escape_controls(f"warning: these settings of {path} have no effect here{protocol}: {shown}"),
        file=sys.stderr,
    )
