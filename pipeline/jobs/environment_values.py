"""`${NAME}` in a value stands for a variable of the environment, `$$` for a dollar.

`${file:/PATH:KEY}` is left to the clients of Kafka (`setting_files`), so that what it stands for comes no
further than it must.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.pipeline.client.setting_files import BEGINNING

_PLACE: Final = re.compile(r"\$(\$|\{([^}]*)\}?)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class VariableError(ValueError):
    """A variable that is not there, or is not written as one; the message is the rest of a sentence."""


def fill_in(
    text: str, environment: Mapping[str, str], *, keeps_files: bool = False
) -> tuple[str, frozenset[str]]:
    """The text with its variables, and their values: they may be secrets. VariableError.

    `keeps_files` leaves references to files as they are; without it they are refused.

    A value is not looked into again, and a dollar that stands alone is one: SQL and patterns have them.
    """
    values: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        name = match[2]
        if match[0].startswith(BEGINNING):
            if not keeps_files:
                raise VariableError("refers to a file, which only settings of Kafka's clients can do")
            return match[0]
        if not match[0].endswith("}") or not _NAME.fullmatch(name):
            raise VariableError("contains ${ without a variable name; write ${NAME}, or $${ for a literal ${")
        if name not in environment:
            raise VariableError(f"uses ${{{name}}}, which is not set in the environment")
        values.add(environment[name])
        return environment[name]

    return _PLACE.sub(value_of, text), frozenset(values)
