"""Options of a connector, read one by one: each value is checked, and a name that was never read is refused.

Names are compared without regard to case, as Spark does; messages spell them as they are documented.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.pipeline.words import OptionError

MAX_SHOWN: Final = 60  # characters of a value in a message: a value may be as long as a file
# Nineteen digits are enough for every int64; int() of a million digits would take minutes.
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def shown(value: str) -> str:
    """Return a value as a message shows it: quoted, and cut if it is long."""
    return repr(value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "…")


class OptionValues:
    """The options that one connector was given. Call `refuse_others` after all of its options were read."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given: dict[str, tuple[str, str]] = {}  # by the name in lower case: as written, and the value
        for name, value in given.items():
            if name.lower() in self._given:
                raise OptionError(name, "is given twice, in different upper and lower case")
            self._given[name.lower()] = name, value
        self._read: set[str] = set()

    def optional(self, name: str) -> str | None:
        """Return the value without the blanks around it, or None if the option was not given."""
        self._read.add(name.lower())
        found = self._given.get(name.lower())
        return None if found is None else found[1].strip()

    def text(self, name: str, otherwise: str | None = None) -> str:
        """Return the value, or `otherwise` if the option was not given.

        Raises OptionError if the value is empty, or if it is missing and there is no `otherwise`.
        """
        value = self.optional(name)
        if value is None and otherwise is not None:
            return otherwise
        if not value:
            raise OptionError(name, "is missing" if value is None else "is empty")
        return value

    def integer(self, name: str, otherwise: int, *, least: int, most: int) -> int:
        found = self.optional_integer(name, least=least, most=most)
        return otherwise if found is None else found

    def optional_integer(self, name: str, *, least: int, most: int) -> int | None:
        """Return the number, or None if the option was not given."""
        value = self.optional(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise OptionError(name, f"is {shown(value)}; it must be a whole number")
        if not least <= int(value) <= most:
            raise OptionError(name, f"is {int(value)}; it must be from {least} to {most}")
        return int(value)

    def boolean(self, name: str, otherwise: bool) -> bool:
        value = self.optional(name)
        if value is None:
            return otherwise
        if value.lower() not in ("true", "false"):
            raise OptionError(name, f"is {shown(value)}; it must be true or false")
        return value.lower() == "true"

    def choice(self, name: str, choices: Sequence[str], otherwise: str | None = None) -> str:
        value = self.text(name, otherwise)
        if value.lower() not in choices:
            raise OptionError(name, f"is {shown(value)}; it must be one of {', '.join(choices)}")
        return value.lower()

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names between commas in their order; none if the option is empty or was not given.

        Raises OptionError if a name is empty or given twice.
        """
        value = self.optional(name)
        if not value:
            return ()
        found = tuple(part.strip() for part in value.split(","))
        if "" in found:
            raise OptionError(name, f"is {shown(value)}, which contains an empty name")
        if len(set(found)) < len(found):
            raise OptionError(name, f"is {shown(value)}, which contains a name twice")
        return found

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return all options whose names begin with `prefix`, by their whole names as they were written.

        They count as read.
        """
        found = {key: pair for key, pair in self._given.items() if key.startswith(prefix.lower())}
        self._read |= found.keys()
        return {name: value.strip() for name, value in found.values()}

    def others(self) -> dict[str, str]:
        """Return the options that were not read yet, by their names as they were written.

        They count as read from now on.
        """
        found = {key: pair for key, pair in self._given.items() if key not in self._read}
        self._read |= found.keys()
        return dict(found.values())

    def refuse_others(self) -> None:
        """Raise OptionError for the first option that was not read."""
        others = sorted(self._given.keys() - self._read)
        if others:
            known = ", ".join(sorted(self._read))
            raise OptionError(self._given[others[0]][0], f"is not an option here; the options are {known}")
