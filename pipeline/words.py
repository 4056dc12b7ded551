"""Errors that the pipeline raises for its user: a sentence with the name of the option."""

import difflib
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"  # as Java's clients hide passwords in their logs
# A shorter value is part of too many words to be hidden in them, and is no secret.
MIN_SECRET_LENGTH: Final = 4


class OptionError(ValueError):
    """An option, or a column that takes its place, that cannot be honoured.

    `option` is its name as the user writes it, `problem` the rest of the sentence. The error is pickled
    between Spark's processes, so both are its arguments.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that a user may have meant, whatever the case of its letters, or None."""
    spellings = {one.lower(): one for one in sorted(known)}
    found = difflib.get_close_matches(name.lower(), spellings, n=1)
    return spellings[found[0]] if found else None


def with_nearest(problem: str, name: str, known: Iterable[str]) -> str:
    """Return `problem`, followed by the nearest known name if there is one: `is no option; topic?`."""
    near = nearest(name, known)
    return problem if near is None else f"{problem}; {near}?"


def without_secrets(text: str, secrets: frozenset[str]) -> str:
    """Return the text with each of these values hidden, the longest first.

    Values shorter than MIN_SECRET_LENGTH are left in the text.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, HIDDEN)
    return text
