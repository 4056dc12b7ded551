"""The connection of a command, from the properties file of `--command-config` or from a profile.

Passwords are in these files, never among the arguments, which other users of a machine can see.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.logstore.words.old_names import OLD_CLIENT_NAMES, old_name_hint
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.profile_option import is_outranked, named_profile
from ottla.node.cli.profiles import read_current_profile, read_profiles
from ottla.node.cli.rest_url import LOCAL_REST, REST_URL, RestUrl, parse_rest_url, rest_security
from ottla.node.secure_client.client_security import (
    PLAINTEXT,
    ClientSecurity,
    ClientSecurityError,
    read_client_security,
)
from ottla.node.secure_client.security_names import READ, is_of_security
from ottla.node.settings.properties_file import MAX_PROPERTIES_BYTES, parse_properties

BOOTSTRAP: Final = "bootstrap.servers"
MAX_NAMED: Final = 10  # settings in a warning


class CommandConfig(NamedTuple):
    """The security of a command's connections, and the addresses to use if no others are given."""

    bootstrap: str | None = None
    security: ClientSecurity = PLAINTEXT


class RestConnection(NamedTuple):
    """The address of a REST API, and the security of connections to it."""

    url: RestUrl
    security: ClientSecurity = PLAINTEXT


def connection_of(
    bootstrap: str | None, command_config: Path | None, *, examines_node: bool = False
) -> CommandConfig:
    """Return the connection of a command: from its options, else the environment, else a profile.

    A profile that is named (`--profile`, OTTLA_PROFILE) supplies what those lack. The current profile is used
    only by commands that name neither a cluster nor a node of this machine (`examines_node`), so that its
    passwords are sent only to its own addresses.
    """
    bootstrap = None if is_outranked("bootstrap") else bootstrap
    command_config = None if is_outranked("command_config") else command_config
    file = read_command_config(command_config)
    is_given = bootstrap is not None or command_config is not None or examines_node
    settings, source = _profile(is_cluster_given=is_given)
    return _first_of(bootstrap, command_config, file, config_of(settings, source))


def rest_connection_of(url: str | None, command_config: Path | None) -> RestConnection:
    """Return the connection of a command to a REST API, by the precedence of `connection_of`."""
    url = None if is_outranked("url") else url
    command_config = None if is_outranked("command_config") else command_config
    file = {} if command_config is None else read_settings(command_config)
    profile, source = _profile(is_cluster_given=url is not None or command_config is not None)
    given = profile
    if command_config is not None:
        given, source = file, str(command_config)
    address = url or file.get(REST_URL) or profile.get(REST_URL)
    if address is None and source:
        raise CommandError(
            f"{escape_controls(source)} has no {REST_URL}: add --url, or set OTTLA_REST.", EXIT_USAGE
        )
    return rest_connection(address or LOCAL_REST, given, source)


def rest_connection(address: str, given: Mapping[str, str], source: str) -> RestConnection:
    """Return the connection to this URL by these settings; CommandError if they are unusable."""
    try:
        url = parse_rest_url(address)
        return RestConnection(url, rest_security(given, url))
    except ClientSecurityError as error:
        raise CommandError(escape_controls(f"{source}: {error}."), EXIT_USAGE) from None
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None


def _profile(*, is_cluster_given: bool) -> tuple[Mapping[str, str], str]:
    """Return the settings of the named profile, else of the current one, and its name for messages.

    The current profile is left out if options name a cluster. Without a profile, both are empty.
    """
    name = named_profile()
    if name is not None:
        return read_profiles().of(name), f"Profile {name}"
    if not is_cluster_given and (in_use := read_current_profile()) is not None:
        return in_use[1], f"Profile {in_use[0]}"
    return {}, ""


def other_connection(
    bootstrap: str | None, command_config: Path | None, profile: str | None
) -> CommandConfig:
    """Return the connection of a command to a second cluster, from the options for it alone."""
    file = read_command_config(command_config)
    named = CommandConfig()
    if profile is not None:
        named = config_of(read_profiles().of(profile), f"Profile {profile}")
    return _first_of(bootstrap, command_config, file, named)


def _first_of(
    bootstrap: str | None, command_config: Path | None, file: CommandConfig, profile: CommandConfig
) -> CommandConfig:
    security = profile.security if command_config is None else file.security
    return CommandConfig(bootstrap or file.bootstrap or profile.bootstrap, security)


def read_command_config(path: Path | None) -> CommandConfig:
    """Read the file of `--command-config`; CommandError for settings that are not supported."""
    return CommandConfig() if path is None else config_of(read_settings(path), str(path))


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings of a properties file, unparsed; CommandError if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PROPERTIES_BYTES + 1)
    except OSError as error:
        raise CommandError(f"--command-config {path} cannot be read: {error.strerror}.", EXIT_USAGE) from None
    try:
        return {name: value.strip() for name, value in parse_properties(content, str(path)).items()}
    except KafkaError as error:
        raise CommandError(escape_controls(error.detail), EXIT_USAGE) from None


def config_of(given: Mapping[str, str], source: str) -> CommandConfig:
    """Return the connection for these settings; CommandError, with their source, if they are not supported.

    Settings without effect are named on stderr, as in Kafka's tools.
    """
    try:
        security, idle = read_client_security(given)
    except ClientSecurityError as error:
        raise CommandError(escape_controls(f"{source}: {error}."), EXIT_USAGE) from None
    for name in given:
        if (problem := old_name_hint(name, OLD_CLIENT_NAMES)) is not None:
            raise CommandError(escape_controls(f"{source}: {name} {problem}."), EXIT_USAGE)
    others = [name for name in given if name not in (BOOTSTRAP, REST_URL) and not is_of_security(name)]
    if REST_URL in given:  # which may use settings of TLS and logins that the listener does not
        idle = tuple(name for name in idle if name not in READ)
    _warn(source, sorted({*idle, *others}), security)
    return CommandConfig(bootstrap=given.get(BOOTSTRAP) or None, security=security)


def _warn(source: str, names: list[str], security: ClientSecurity) -> None:
    if not names:
        return
    shown = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    protocol = f" (security.protocol is {security.protocol})" if any(map(is_of_security, names)) else ""
    print(
        escape_controls(f"warning: these settings of {source} have no effect here{protocol}: {shown}"),
        file=sys.stderr,
    )
