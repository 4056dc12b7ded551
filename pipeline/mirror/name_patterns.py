"""Filters of names: lists of names and regular expressions between commas, as MirrorMaker has them.

An excluded name stays excluded even if it is included as well.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.pipeline.source.java_regex import PatternError, translated
from ottla.pipeline.words import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """Names that fully match one expression of `included` and none of `excluded`."""

    included: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return True if the filter includes the name."""
        return re.fullmatch(self.pattern(), name) is not None

    def pattern(self) -> str:
        """Return one expression for the whole filter, with the same meaning in Java and Python."""
        if not self.included:
            return "(?!)"
        wanted = _any_of(self.included)
        return f"(?!{_any_of(self.excluded)}$){wanted}" if self.excluded else wanted

    def without(self, more: Iterable[str]) -> "NameFilter":
        """Return this filter with more exclusions."""
        return NameFilter(included=self.included, excluded=(*self.excluded, *more))


def read_patterns(option: str, text: str, *, of_topics: bool = False) -> tuple[str, ...]:
    """Return the expressions of a list; OptionError for an invalid one.

    Those of topics are in Java's syntax, as MirrorMaker's, and are translated to one that Python and Java
    read alike. Others, which may be matched with names that are not ASCII, are in Python's.
    """
    found = tuple(part for part in (part.strip() for part in text.split(",")) if part)
    return tuple(_read(option, one, of_topics=of_topics) for one in found)


def _read(option: str, one: str, *, of_topics: bool) -> str:
    try:
        if of_topics:
            return translated(one)
        re.compile(one)
    except (PatternError, re.error, RecursionError, OverflowError) as fault:
        raise OptionError(option, f"{one[:80]!r} is not a regular expression: {fault}") from None
    return one


def _any_of(expressions: Iterable[str]) -> str:
    # Each in a group of its own, as `a|b` must not join with its neighbour.
    return "(?:" + "|".join(f"(?:{one})" for one in expressions) + ")"
