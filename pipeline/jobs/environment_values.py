"""Variables in values: `${NAME}` stands for a variable of the environment, `$$` for a dollar.

`${file:/PATH:KEY}` is left to the clients of Kafka (`setting_files`), so that its value is read as late as
possible.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.pipeline.client.setting_files import BEGINNING

_PLACE: Final = re.compile(r"\$(\$|\{([^}]*)\}?)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class VariableError(ValueError):
    """A variable that is not set, or is not written correctly; the message is the rest of a sentence."""


def fill_in(
    text: str, environment: Mapping[str, str], *, keeps_files: bool = False
) -> tuple[str, frozenset[str]]:
    """Return the text with its variables filled in, and their values, as they may be secrets.

    Raises VariableError for a variable that is not set or is written incorrectly. `keeps_files` leaves
    references to files as they are; without it they are refused. Values are not searched for variables, and a
    dollar that stands alone is kept: SQL and patterns have them.
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
