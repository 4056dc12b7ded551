"""Reads values from a file's tree: checks keys, fills in variables of the environment, collects errors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.pipeline.client.setting_names import is_secret
from ottla.pipeline.jobs.environment_values import VariableError, fill_in
from ottla.pipeline.jobs.problems import Problems, unknown
from ottla.pipeline.jobs.yaml_tree import Items, Members, Text, Tree

# The prefixes of options that a client of Kafka reads.
CLIENT_PREFIXES: Final = ("kafka.", "source.cluster.", "target.cluster.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A location in the file: its line, and the path of keys to it."""

    line: int
    key: str

    def below(self, name: str, line: int | None = None) -> "SourceLocation":
        return SourceLocation(
            line=self.line if line is None else line, key=f"{self.key}.{name}" if self.key else name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A key's value with its location."""

    tree: Tree
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options as text, and the line of each."""

    values: Mapping[str, str]
    lines: Mapping[str, int]


class TreeValues:
    """Reads parts of the tree.

    A part that cannot be read becomes a problem and None, so that the rest is read.
    """

    def __init__(self, problems: Problems, environment: Mapping[str, str]) -> None:
        self._problems = problems
        self._environment = environment

    def wrong(self, location: SourceLocation, reason: str) -> None:
        self._problems.add(location.line, location.key, reason)

    def members(self, value: Value) -> dict[str, Value] | None:
        """Return the members of a map by their keys."""
        if not isinstance(value.tree, Members):
            self.wrong(value.location, "must be a map of keys and values")
            return None
        found: dict[str, Value] = {}
        for key, tree in value.tree.pairs:
            location = value.location.below(key.text, key.line)
            if key.text in found:
                self.wrong(location, f"is given twice, first in line {found[key.text].location.line}")
            else:
                found[key.text] = Value(tree=tree, location=location)
        return found

    def known_members(self, value: Value, known: Iterable[str]) -> dict[str, Value] | None:
        """Return the members; other keys than the known ones become problems, with the nearest known one."""
        found = self.members(value)
        names = list(known)
        for name in [name for name in found or {} if name not in names]:
            assert found is not None
            self.wrong(found.pop(name).location, unknown(name, names))
        return found

    def items(self, value: Value) -> list[Value] | None:
        """Return the items of a list, counted from 1 in their places."""
        if not isinstance(value.tree, Items):
            self.wrong(value.location, "must be a list: items with a dash before each")
            return None
        return [
            Value(tree=item, location=SourceLocation(line=item.line, key=f"{value.location.key}[{number}]"))
            for number, item in enumerate(value.tree.items, start=1)
        ]

    def text(self, value: Value, *, keeps_files: bool = False) -> str | None:
        """Return a scalar with its variables filled in; with `keeps_files` it may refer to files."""
        if not isinstance(value.tree, Text):
            hint = "" if isinstance(value.tree, Items) else "; put JSON in quotes"
            self.wrong(value.location, f"must be text{hint}")
            return None
        if value.tree.is_null:
            self.wrong(value.location, "has no value")
            return None
        try:
            text, of_environment = fill_in(value.tree.text, self._environment, keeps_files=keeps_files)
        except VariableError as error:
            self.wrong(value.location, str(error))
            return None
        self._problems.secrets |= of_environment
        if is_secret(value.location.key):
            self._problems.secrets.add(text)
        return text

    def boolean(self, value: Value) -> bool | None:
        text = self.text(value)
        if text is not None and text.lower() not in ("true", "false"):
            self.wrong(value.location, "must be true or false")
            return None
        return None if text is None else text.lower() == "true"

    def choice(self, value: Value, choices: Iterable[str]) -> str | None:
        text = self.text(value)
        if text is not None and text not in choices:
            self.wrong(value.location, f"must be one of {', '.join(choices)}")
            return None
        return text

    def options(self, value: Value, members: Mapping[str, Value] | None = None) -> Options | None:
        """Return a map of texts, or None if one is wrong.

        `members` takes the place of the map's own, if the caller has removed some of them.
        """
        found = self.members(value) if members is None else members
        if found is None:
            return None
        texts = {
            name: self.text(one, keeps_files=name.lower().startswith(CLIENT_PREFIXES))
            for name, one in found.items()
        }
        values = {name: text for name, text in texts.items() if text is not None}
        if len(values) < len(texts):
            return None
        return Options(values=values, lines={name: one.location.line for name, one in found.items()})
