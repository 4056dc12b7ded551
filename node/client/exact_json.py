"""JSON that is stored as it was written: each number with its digits, each name of an object once.

A float holds some 17 digits and loses the notation (1.10, -0), and if a name is repeated a parser keeps one
value. So the values that orjson has parsed are used only if orjson writes the same document from them again,
whitespace aside: it does so for nearly every document. In the others numbers are kept as texts
(`orjson.Fragment`). A document that cannot be kept is rejected, and `json_refusal` names the field.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any, Final

import orjson

from ottla.node.client.json_refusal import refusal

# orjson writes 254 levels, and json as many as the interpreter's stack allows, which differs by setting and
# caller: this limit is independent of both.
MAX_NESTING: Final = 500
# Arrays, objects and values of a document: an empty object of two bytes takes 64 in memory, so a document of
# some megabytes would take hundreds, and block every thread while it is parsed.
MAX_PARTS: Final = 500_000
COMPARED_PARTS: Final = 50_000  # per record, since many are parsed on a loop that serves other clients
_PARTS: Final = b",{["  # a comma before each further value, and the start of each array and object
_NO_PARTS: Final = bytes(set(range(256)) - set(_PARTS))
_NO_MARKS: Final = bytes(set(_NO_PARTS) - set(b'"'))
# An unterminated text ends at the end of the document, so that any input is scanned once.
_MARKED_TEXT: Final = re.compile(rb'"[^"]*+"?')
MAX_INTEGER_DIGITS: Final = 4_000  # Python's default limit for an int: its time is quadratic in the digits
_MINUS_ZERO: Final = re.compile(rb"-0(?![0-9.eE])")
_SPACE: Final = b" \t\r\n"
# Maps each byte to its kind: a digit or a point, the letter of an exponent, or any other.
_KINDS: Final = bytes(
    ord("0") if chr(code) in "0123456789." else ord("e") if chr(code) in "eE" else ord(" ")
    for code in range(256)
)
_MANY_DIGITS: Final = b"0" * 17  # a float returns the same digits for up to 15 and a point
_MAYBE_EXPONENT: Final = b"0e"
_EXPONENT: Final = re.compile(rb"[0-9][eE][+-]?[0-9]{3}")
_EXACT_FLOATS: Final = 2.0**53  # each integer below it has an exact float


def load_json(document: bytes | bytearray) -> Any:
    """Parse a JSON document so that `dump_json` writes it unchanged; ValueError with the field if it cannot.

    Numbers that a float would change become an `orjson.Fragment`, and integers beyond 64 bits an int.
    Documents are rejected if they have more than `MAX_PARTS` parts, a number with a point or exponent beyond
    the largest float, NaN, a text that has no UTF-8, or an object with a repeated name, since parsers
    disagree about it.
    """
    check_parts(document)
    try:
        loaded = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        return _load_exactly(document, error)
    try:
        written = orjson.dumps(loaded)
    except TypeError:  # more levels than orjson writes
        return loaded if _is_nested_deeper(loaded, MAX_NESTING) else _load_exactly(document, None)
    if written == document or written.translate(None, _SPACE) == document.translate(None, _SPACE):
        return loaded
    return _load_exactly(document, None)


def check_parts(document: bytes | bytearray, limit: int = MAX_PARTS) -> None:
    """Raise ValueError if a document has more than `limit` arrays, objects and values."""
    if len(document) > limit and len(document.translate(None, _NO_PARTS)) > limit:
        # Some are in texts. Keep quotes and parts alone; two quotes in a row delimit nothing that counts.
        marks = document.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_MARKS)
        marks = marks.replace(b'""', b"")
        # Between two texts that are left is at least one part.
        if marks.count(b'"') // 2 > limit + 1 or len(_MARKED_TEXT.sub(b"", marks)) > limit:
            raise ValueError(f"more than {limit:,} values")


def load_for_comparison(document: bytes | bytearray) -> Any:
    """Parse a JSON document for `is_same_json`; ValueError if it is not JSON, or too large.

    It may have up to `COMPARED_PARTS` parts. If a name is repeated, its last value counts. NaN is accepted,
    and equals nothing.
    """
    check_parts(document, COMPARED_PARTS)
    if not _needs_decimals(document):
        try:
            return orjson.loads(document)
        except orjson.JSONDecodeError:
            pass  # json accepts NaN and lone surrogates, which should hide no other field
    return _load(document, _COMPARING_DECODER)


def is_same_json(one: Any, other: Any) -> bool:
    """Return True if two values of `load_for_comparison` are equal, numbers by their exact value.

    The time depends on the number of digits only, not on the exponents.
    """
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[name]) for name, value in left.items()]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif _scalar(left) != _scalar(right):
            return False
    return True


def dump_json(content: Any) -> bytes:
    """Return compact JSON of a result of `load_json`; ValueError if it is nested beyond `MAX_NESTING`."""
    try:
        return orjson.dumps(content)
    except TypeError:  # an integer beyond 64 bits, many levels, or a text with a lone surrogate
        if _is_nested_deeper(content, MAX_NESTING):
            raise ValueError("nested too deeply") from None
    try:
        return b"".join(_pieces(content))
    except TypeError as error:
        raise ValueError(str(error)) from None


# ---- reading -------------------------------------------------------------------------------------


def _load_exactly(document: bytes | bytearray, error: orjson.JSONDecodeError | None) -> Any:
    """Parse with numbers as they are written; `error` is the reason why orjson could not parse it."""
    is_plain = error is None and _MINUS_ZERO.search(document) is None
    try:
        loaded = _load(document, _EXACT_DECODER if is_plain else _STRICT_DECODER)
        if error is not None:  # unlike orjson, json accepts lone surrogates
            dump_json(loaded)
    except UnicodeDecodeError as failure:
        raise refusal(document, failure) from None
    except ValueError as failure:
        raise refusal(document, error or failure) from None
    return loaded


def _load(document: bytes | bytearray, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(document.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _exact_float(text: str) -> Any:
    if isinf(float(text)):
        raise ValueError(f"{text[:40]} is beyond the largest float")
    return orjson.Fragment(text)


def _exact_integer(text: str) -> Any:
    return orjson.Fragment(text) if text == "-0" or len(text) > MAX_INTEGER_DIGITS else int(text)


def _object_without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated")
    return found


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# In a document that orjson could parse no number is beyond the largest float.
_EXACT_DECODER: Final = json.JSONDecoder(
    parse_float=orjson.Fragment, object_pairs_hook=_object_without_repetition
)
_STRICT_DECODER: Final = json.JSONDecoder(
    parse_float=_exact_float,
    parse_int=_exact_integer,
    parse_constant=_reject_constant,
    object_pairs_hook=_object_without_repetition,
)


# ---- comparing -----------------------------------------------------------------------------------


def _needs_decimals(document: bytes | bytearray) -> bool:
    """Return True if the document may have a number that no float and no 64-bit integer holds exactly."""
    kinds = document.translate(_KINDS)
    return _MANY_DIGITS in kinds or (_MAYBE_EXPONENT in kinds and _EXPONENT.search(document) is not None)


def _decimal(text: str) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond the range of Decimal: it equals nothing
        return orjson.Fragment(text)


def _compared_integer(text: str) -> Any:
    return Decimal(text) if len(text) > MAX_INTEGER_DIGITS else int(text)


_COMPARING_DECODER: Final = json.JSONDecoder(
    parse_float=_decimal, parse_int=_compared_integer, parse_constant=orjson.Fragment
)


def _scalar(value: Any) -> Any:
    """Return a value to compare by `==`; bools are wrapped, since in Python True equals 1."""
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, float):
        # The shortest decimal that yields this float is the text that was written.
        return int(value) if value.is_integer() and abs(value) < _EXACT_FLOATS else Decimal(repr(value))
    return value


# ---- writing -------------------------------------------------------------------------------------


def _pieces(content: Any) -> list[bytes]:
    """Return the JSON of a value in pieces, without recursion; TypeError for a text that has no UTF-8."""
    pieces: list[bytes] = []
    waiting: list[Any] = [content]  # still to be written, last first; bytes are written as they are
    while waiting:
        part = waiting.pop()
        if isinstance(part, bytes):
            pieces.append(part)
        elif isinstance(part, dict):
            waiting.append(b"}")
            for number, (name, value) in enumerate(reversed(part.items()), 1 - len(part)):
                waiting += [value, (b"," if number else b"") + orjson.dumps(name) + b":"]
            pieces.append(b"{")
        elif isinstance(part, list):
            waiting.append(b"]")
            for number, value in enumerate(reversed(part), 1 - len(part)):
                waiting += [value, b"," if number else b""]
            pieces.append(b"[")
        elif isinstance(part, int) and not -(2**63) <= part < 2**64:
            pieces.append(str(part).encode())
        else:
            pieces.append(orjson.dumps(part))
    return pieces


def _is_nested_deeper(content: Any, levels: int) -> bool:
    """Return True if arrays and objects are nested more than `levels` deep."""
    within = [content]
    for _ in range(levels + 1):
        within = [each for each in within if isinstance(each, (dict, list))]
        if not within:
            return False
        within = [part for each in within for part in (each.values() if isinstance(each, dict) else each)]
    return True
