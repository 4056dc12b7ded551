"""The errors of a job file: all of them at once, each with its line, its key and the reason."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.pipeline.words import nearest, without_secrets


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """An error.

    `key` is the path of a key with dots, as `jobs.totals.sink.topic`; empty for the whole file.
    """

    line: int
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.line}: {self.key}: {self.reason}" if self.key else f"{self.line}: {self.reason}"


class JobFileError(ValueError):
    """A file that cannot be run, with a line for each problem, `FILE:LINE: key: reason`."""

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{path}:{problem}" for problem in self.problems))


@dataclass(slots=True)
class Problems:
    """Collects problems; secrets of the file are removed from their reasons."""

    found: list[Problem] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def add(self, line: int, key: str, reason: str) -> None:
        self.found.append(Problem(line=line, key=key, reason=reason))

    def raise_if_any(self, path: Path) -> None:
        """Raise JobFileError with all problems, if there are any."""
        if self.found:
            secrets = frozenset(self.secrets)
            raise JobFileError(
                path,
                [
                    Problem(line=one.line, key=one.key, reason=without_secrets(one.reason, secrets))
                    for one in self.found
                ],
            )


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the reason why a name is refused, with the nearest known name, or else with all of them."""
    names = sorted(known)
    near = nearest(name, names)
    return f"is unknown; {near}?" if near else f"is unknown; use one of {', '.join(names)}"
