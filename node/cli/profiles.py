"""Profiles: named connections to clusters, in one file of the user's configuration directory.

The file has passwords, so only its owner can read it: it is created with mode 0600, and replaced as a whole.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.failure import EXIT_USAGE, CommandError

MAX_FILE_BYTES: Final = 1 << 20  # enough for hundreds of profiles with their certificates
MAX_PROFILES: Final = 1_000
HIDDEN: Final = "(hidden)"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SECRET: Final = re.compile(r"password|secret|jaas\.config|keystore\.key$")
_READABLE_BY_OTHERS: Final = 0o077


class Profiles(NamedTuple):
    """The settings of each profile by its name, and the name of the current one."""

    current: str | None
    settings: Mapping[str, Mapping[str, str]]

    def of(self, name: str) -> Mapping[str, str]:
        """Return the settings of a profile; CommandError if there is none of this name."""
        if name not in self.settings:
            raise CommandError(
                f"There is no profile {escape_controls(name)!r}. `ottla profile list` shows all profiles.",
                EXIT_USAGE,
            )
        return self.settings[name]


NO_PROFILES: Final = Profiles(None, {})


def check_name(name: str) -> None:
    """Raise CommandError for an invalid name of a profile."""
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} cannot be the name of a profile: use 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' "
            "and '-', a letter or a digit first.",
            EXIT_USAGE,
        )


def is_secret(name: str) -> bool:
    """Return True if the value of a setting is never shown, nor accepted on the command line."""
    return _SECRET.search(name) is not None


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings sorted by name, with secrets hidden."""
    return {name: HIDDEN if is_secret(name) else value for name, value in sorted(settings.items())}


def profiles_path() -> Path:
    """Return the path of the file, by the XDG Base Directory Specification; CommandError without a home."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        base = Path(given) if given.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise CommandError("There is no home directory; set XDG_CONFIG_HOME.", EXIT_USAGE) from None
    return base / "ottla" / "profiles.json"


def read_profiles() -> Profiles:
    """Return all profiles, none if there is no file; CommandError for a file that cannot be read."""
    path = profiles_path()
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
            mode = os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return NO_PROFILES
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.", EXIT_USAGE) from None
    if mode & _READABLE_BY_OTHERS:
        print(f"warning: others can read the profiles in {path}; run `chmod 600 {path}`", file=sys.stderr)
    return _parse(content, path)


def read_current_profile() -> tuple[str, Mapping[str, str]] | None:
    """Return the current profile with its name; None if there is none.

    A file without read permission belongs to another user whose HOME is set, as with sudo, and is ignored.
    """
    try:
        if not os.access(profiles_path(), os.R_OK):
            return None
    except CommandError:
        return None
    found = read_profiles()
    return None if found.current is None else (found.current, found.of(found.current))


def _parse(content: bytes, path: Path) -> Profiles:
    try:
        if len(content) > MAX_FILE_BYTES:
            raise ValueError("it is larger than 1 MiB")
        found = json.loads(content)
        current, profiles = found["current"], found["profiles"]
        is_valid = isinstance(profiles, dict) and len(profiles) <= MAX_PROFILES
        is_valid = is_valid and (current is None or current in profiles)
        is_valid = is_valid and all(
            _NAME.fullmatch(name)
            and isinstance(settings, dict)
            and all(isinstance(value, str) for value in settings.values())
            for name, settings in profiles.items()
        )
        if not is_valid:
            raise ValueError("it does not have the form that `ottla profile` writes")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        words = str(error) if isinstance(error, ValueError) else "it does not have the expected form"
        raise CommandError(f"The profiles in {path} cannot be read: {words}.", EXIT_USAGE) from None
    return Profiles(current, profiles)


def write_profiles(profiles: Profiles) -> None:
    """Replace the file, which only its owner can read; CommandError if the write fails."""
    content = json.dumps({"current": profiles.current, "profiles": profiles.settings}, indent=2) + "\n"
    if len(content) > MAX_FILE_BYTES or len(profiles.settings) > MAX_PROFILES:
        raise CommandError("There is no room for more profiles: delete unused ones.")
    # The file may be a link into a repository of configuration files.
    path = Path(os.path.realpath(profiles_path()))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".profiles-", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except OSError:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
