"""`ottla profile ...`: creates, changes, shows, selects and deletes profiles. Each returns the exit code."""

import getpass
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.cli.answers import Results, answer, print_json
from ottla.node.cli.command_config import BOOTSTRAP, config_of, read_settings, rest_connection
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.cli.profiles import (
    Profiles,
    check_name,
    is_secret,
    profiles_path,
    read_profiles,
    shown,
    write_profiles,
)
from ottla.node.cli.rest_url import REST_URL
from ottla.node.cli.topic_commands import print_table
from ottla.node.client.cluster_client import parse_bootstrap
from ottla.node.secure_client.security_names import is_of_security

MAX_SECRET_BYTES: Final = 16 * 1024  # a PEM key has some 4 KiB
_EXISTS: Final = "Profile {0} exists already; `ottla profile set {0}` changes it."


def create(name: str, given: Mapping[str, str], *, is_used: bool, as_json: bool) -> int:
    """Create a profile with these settings, and use it if wanted."""
    check_name(name)
    profiles = read_profiles()
    if name in profiles.settings:
        raise CommandError(_EXISTS.format(name))
    _check_settings(name, given)
    _write(profiles, {**profiles.settings, name: dict(given)}, name if is_used else profiles.current)
    hint = "; it is in use" if is_used else f"; `ottla profile use {name}` selects it for all commands"
    answer({"profile": name, "created": True, "current": is_used}, f"created {name}{hint}", as_json=as_json)
    return 0


def change(name: str, given: Mapping[str, str], resets: Sequence[str], *, as_json: bool) -> int:
    """Set these settings of a profile, and remove others."""
    profiles = read_profiles()
    before = profiles.of(name)
    for reset in resets:
        if reset not in before:
            raise CommandError(f"Profile {name} has no setting {reset!r}.", EXIT_USAGE)
    after = {key: value for key, value in {**before, **given}.items() if key not in resets}
    _check_settings(name, after)
    _write(profiles, {**profiles.settings, name: after}, profiles.current)
    changed = sorted({*given, *resets})
    answer({"profile": name, "changed": changed}, f"changed {', '.join(changed)} of {name}", as_json=as_json)
    return 0


def use(name: str | None, *, as_json: bool) -> int:
    """Select the profile of all commands that name no cluster, or none."""
    profiles = read_profiles()
    if name is not None:
        profiles.of(name)
    _write(profiles, profiles.settings, name)
    answer(
        {"profile": name}, "no profile is in use" if name is None else f"{name} is in use", as_json=as_json
    )
    return 0


def show(name: str | None, *, as_json: bool) -> int:
    """Print the settings of a profile, by default of the current one; secrets are hidden."""
    profiles = read_profiles()
    name = name or profiles.current
    if name is None:
        raise CommandError("No profile is in use; name one. `ottla profile list` shows all profiles.")
    settings = shown(profiles.of(name))
    if as_json:
        print_json({"profile": name, "current": name == profiles.current, "settings": settings})
    else:
        print_table(("setting", "value"), list(settings.items()))
    return 0


def list_all(named: str | None, *, as_json: bool) -> int:
    """Print all profiles; `named` is the one that OTTLA_PROFILE names."""
    profiles = read_profiles()
    current = named or profiles.current
    rows = [
        {
            "profile": name,
            "current": name == current,
            "bootstrap": settings.get(BOOTSTRAP),
            "security": settings.get("security.protocol", "PLAINTEXT").upper(),
            "rest": settings.get(REST_URL),
        }
        for name, settings in sorted(profiles.settings.items())
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ("profile", "in use", "bootstrap", "security", "rest"),
            [(one["profile"], "*" if one["current"] else None, *list(one.values())[2:]) for one in rows],
        )
    else:
        print("no profiles; `ottla profile create NAME --bootstrap HOST:PORT` creates one")
    return 0


def current(named: str | None, *, as_json: bool) -> int:
    """Print the name of the current profile; 1 if there is none."""
    profiles = read_profiles()
    name = named or profiles.current
    if name is not None:
        profiles.of(name)
    if as_json:
        print_json({"profile": name, "file": str(profiles_path())})
    elif name is not None:
        print(name)
    else:
        print("ottla: No profile is in use.", file=sys.stderr)
    return EXIT_FAILURE if name is None else 0


def delete(names: Sequence[str], *, as_json: bool) -> int:
    """Delete profiles; if the current one is among them, there is none afterwards."""
    profiles = read_profiles()
    for name in names:
        profiles.of(name)
    left = {name: settings for name, settings in profiles.settings.items() if name not in names}
    _write(profiles, left, profiles.current if profiles.current in left else None)
    with Results(as_json=as_json) as results:
        for name in dict.fromkeys(names):
            is_current = name == profiles.current
            words = f"deleted {name}" + ("; no profile is in use any more" if is_current else "")
            results.add({"profile": name, "deleted": True}, words)
    return 0


def _write(before: Profiles, settings: Mapping[str, Mapping[str, str]], current: str | None) -> None:
    after = Profiles(current, settings)
    if after != before:
        write_profiles(after)


# ---- settings ------------------------------------------------------------------------------------


def settings_from(
    words: Sequence[str], *, bootstrap: str | None, rest: str | None, file: Path | None
) -> dict[str, str]:
    """Return the settings of a command: arguments override --bootstrap and --rest, which override the file.

    An argument without a value is a secret, which is typed or read from standard input.
    """
    found: dict[str, str] = {}
    if file is not None:
        read = read_settings(file)
        found = {name: value for name, value in read.items() if _is_of_connections(name)}
    if bootstrap is not None:
        found[BOOTSTRAP] = bootstrap
    if rest is not None:
        found[REST_URL] = rest
    for word in words:
        name, separator, value = word.partition("=")
        if not _is_of_connections(name):
            raise CommandError(
                f"{name!r} is not a setting of a profile: these are {BOOTSTRAP}, {REST_URL}, "
                "security.protocol, ssl.* and sasl.*.",
                EXIT_USAGE,
            )
        if separator and is_secret(name):
            raise CommandError(
                f"{name} is a secret, which others on this machine could see: write {name} without a value, "
                "and type it or give it on standard input.",
                EXIT_USAGE,
            )
        found[name] = value if separator else _secret(name)
    return {name: _absolute(name, value) for name, value in found.items()}


def _is_of_connections(name: str) -> bool:
    return name in (BOOTSTRAP, REST_URL) or is_of_security(name)


def _absolute(name: str, value: str) -> str:
    """Return a path as an absolute one, since commands run in any directory; other values unchanged."""
    return str(Path(value).absolute()) if name.endswith(".location") and value else value


def _secret(name: str) -> str:
    """Return a line typed at the terminal without an echo, or the next line of standard input."""
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"{name}: ").strip()
        except EOFError:
            raise CommandError(f"No value was given for {name}.", EXIT_USAGE) from None
    line = sys.stdin.buffer.readline(MAX_SECRET_BYTES + 1)
    if len(line) > MAX_SECRET_BYTES or not line.strip():
        problem = f"longer than {MAX_SECRET_BYTES:,} bytes" if line.strip() else "missing"
        raise CommandError(f"The value of {name} on standard input is {problem}.", EXIT_USAGE)
    try:
        return line.decode().strip()
    except UnicodeDecodeError:
        raise CommandError(f"The value of {name} on standard input is not UTF-8 text.", EXIT_USAGE) from None


def _check_settings(name: str, settings: Mapping[str, str]) -> None:
    """Raise CommandError for settings with which no command could connect."""
    config = config_of(settings, f"Profile {name}")
    try:
        if config.bootstrap is not None:
            parse_bootstrap(config.bootstrap)
    except (ValueError, KafkaError) as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if (rest := settings.get(REST_URL)) is not None:
        rest_connection(rest, settings, f"Profile {name}")
