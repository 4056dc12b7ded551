"""The reason why a JSON document is rejected, in a sentence that names the field.

Parsers return a position in the text. The author of the document looks for a field, so its path is found by
going through the tokens once more. Only rejected documents pay for it.
"""

import json
import re
from math import isinf
from typing import Final, NamedTuple

# Some 30 ms at most, on the loop that serves all clients. For a longer document the error has only the
# position.
MAX_EXPLAINED_BYTES: Final = 64 * 1024
MAX_SHOWN: Final = 80  # characters of a name or number
MAX_PATH: Final = 200
# An unterminated text ends at the end of the document, so that any input is scanned once.
_TOKEN: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\],:]|[^ \t\r\n"{}\[\],:]++', re.DOTALL
)
_NO_NUMBERS: Final = (b"NaN", b"Infinity", b"-Infinity")
_HALF: Final = re.compile("[\ud800-\udfff]")


class _Part(NamedTuple):
    """An array or object that is open; `names` are those that an object had so far, None for an array."""

    names: set[str] | None
    place: list[str]  # the name or index of the current value, as a path has it


def refusal(document: bytes | bytearray, problem: ValueError) -> ValueError:
    """Return the error for a document; `problem` is the error of a parser."""
    end = _position(document, problem)
    reason, path = None, ""
    if len(document) <= MAX_EXPLAINED_BYTES:
        reason, path = _explain(bytes(document), end)
    if reason is not None:
        return ValueError(reason)
    words = problem.msg if isinstance(problem, json.JSONDecodeError) else str(problem)
    if isinstance(problem, UnicodeDecodeError):
        words = f"byte {problem.start + 1} is not UTF-8"
    if isinstance(problem, json.JSONDecodeError):
        # A document is often one line of a file, whose number the caller adds.
        is_one_line = "\n" not in problem.doc[: problem.pos]
        words += f" at column {problem.colno}" if is_one_line else f" at {problem.lineno}:{problem.colno}"
    return ValueError(f"{words}, in field {path}" if path else words)


def _position(document: bytes | bytearray, problem: ValueError) -> int:
    if isinstance(problem, UnicodeDecodeError):
        return problem.start
    if isinstance(problem, json.JSONDecodeError):
        return len(problem.doc[: problem.pos].encode("utf-8", "surrogatepass"))
    return len(document)


def _explain(document: bytes, end: int) -> tuple[str | None, str]:
    """Return why the first invalid field is rejected, None for a syntax error; and the path at `end`."""
    within: list[_Part] = []
    expects_name = False
    for found in _TOKEN.finditer(document):
        token = found.group()
        reason = None
        if found.start() >= end and token not in _NO_NUMBERS and not _is_text_or_number(token):
            break
        match token:
            case b"{" | b"[":
                within.append(_Part(set() if token == b"{" else None, ["" if token == b"{" else "0"]))
                expects_name = token == b"{"
            case b"}" | b"]":
                if not within:
                    break
                within.pop()
                expects_name = False
            case b",":
                if within and within[-1].names is None:
                    within[-1].place[0] = str(int(within[-1].place[0]) + 1)
                expects_name = bool(within) and within[-1].names is not None
            case b":":
                expects_name = False
            case _:
                reason = _name(token, within) if expects_name else _value(token, within)
        if reason is not None:
            return reason, _path(within)
        if found.end() > end:
            break
    return None, _path(within)


def _is_text_or_number(token: bytes) -> bool:
    return len(token) > 1 and token[:1] in b'"-0123456789'


def _name(token: bytes, within: list[_Part]) -> str | None:
    try:
        name = json.loads(token.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        return f"a name in {_path(within) or 'the document'} is not UTF-8"
    except ValueError:
        return None
    if not isinstance(name, str):  # {1:2} is a syntax error, which the parser's message describes
        return None
    part, names = within[-1], within[-1].names
    part.place[0] = name[:MAX_SHOWN].encode("utf-8", "backslashreplace").decode()
    if _HALF.search(name):
        return f"the name of field {_path(within)} has a lone surrogate, which UTF-8 cannot encode"
    assert names is not None
    if name in names:
        return f"field {_path(within)} is repeated in its object, and parsers disagree about its value"
    names.add(name)
    return None


def _value(token: bytes, within: list[_Part]) -> str | None:
    if token in _NO_NUMBERS:
        return f"{token.decode()}{_of_field(within)} is not a JSON number"
    try:
        if token[:1] == b'"':
            if _HALF.search(json.loads(token.decode("utf-8", "surrogatepass"))):
                return f"the text{_of_field(within)} has a lone surrogate, which UTF-8 cannot encode"
        elif not token.lstrip(b"-").isdigit() and isinf(float(token)):
            shown = token[:MAX_SHOWN].decode()
            return f"the number {shown}{_of_field(within)} is beyond the largest float"
    except UnicodeDecodeError:
        return f"the text{_of_field(within)} is not UTF-8"
    except ValueError:
        pass
    return None


def _of_field(within: list[_Part]) -> str:
    # Only for a rejected document: a value may lie hundreds of levels deep.
    path = _path(within)
    return f" of field {path}" if path else ""


def _path(within: list[_Part]) -> str:
    path = ""
    for names, (place,) in within:
        if names is None:
            path += f"[{place}]"
        elif place:
            path += f".{place}" if path else place
    return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."
