"""What the pipeline tells its user when something is the matter: a sentence, with the name of the option."""

import difflib
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"  # Java's word in its logs
# A shorter value is a part of too many words to be taken out of them, and is no secret.
MIN_SECRET_LENGTH: Final = 4


class OptionError(ValueError):
    """An option, or a column that stands for one, that cannot be honoured.

    `option` is its name as the user writes it, `problem` the sentence's rest. It travels between Spark's
    processes, so both are its arguments.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that a user may have meant, whatever the case of its letters."""
    spellings = {one.lower(): one for one in sorted(known)}
    found = difflib.get_close_matches(name.lower(), spellings, n=1)
    return spellings[found[0]] if found else None


def with_nearest(problem: str, name: str, known: Iterable[str]) -> str:
    """`problem`, and the nearest known name if there is one: `is no option; topic?`."""
    near = nearest(name, known)
    return problem if near is None else f"{problem}; {near}?"


def without_secrets(text: str, secrets: frozenset[str]) -> str:
    """The text with each of these values hidden, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, HIDDEN)
    return text
