"""JSON that is stored as it was written: each number with its digits, each name of an object once.

A float holds some 17 digits and forgets how it was written (1.10, -0), and of a name that comes twice a
reader keeps one value. So what orjson read is taken only where it writes the same document again, up to space
between its parts: that is nearly every document. Of the others numbers are kept as texts (`orjson.Fragment`).
What cannot be kept is refused, and `json_refusal` says which field it is.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any, Final

import orjson

from ottla.node.client.json_refusal import refusal

# orjson writes 254 levels, and json as many as the interpreter has room for, which anyone may set: so many,
# then, whatever is set and wherever the caller stands.
MAX_NESTING: Final = 500
# Arrays, objects and values of a document: an empty object of two bytes takes 64, so a document of some
# megabytes would take hundreds, and hold up every thread while it is read.
MAX_PARTS: Final = 500_000
COMPARED_PARTS: Final = 50_000  # of each of many records, on a loop that answers others
# To the end where it has none: so each byte is looked at once, whatever is sent.
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
MAX_INTEGER_DIGITS: Final = 4_000  # by default Python makes no int of more: its time is quadratic in them
_MINUS_ZERO: Final = re.compile(rb"-0(?![0-9.eE])")
_SPACE: Final = b" \t\r\n"
# A figure or a point, and the sign and letter of an exponent, each by one byte.
_KINDS: Final = bytes(
    ord("0") if chr(code) in "0123456789." else ord("e") if chr(code) in "eE" else ord(" ")
    for code in range(256)
)
_MANY_DIGITS: Final = b"0" * 17  # of 15 and a point each float gives back the same digits
_MAYBE_EXPONENT: Final = b"0e"
_EXPONENT: Final = re.compile(rb"[0-9][eE][+-]?[0-9]{3}")
_EXACT_FLOATS: Final = 2.0**53  # a whole number below is a float of just this value


def load_json(document: bytes | bytearray) -> Any:
    """Return what a JSON document says, for `dump_json` to write; ValueError, which names the field, if it
    cannot be stored as it is, or has more than `MAX_PARTS`.

    Numbers that would change are an `orjson.Fragment`, whole numbers beyond 64 bits an int. Refused are
    numbers with a point or exponent beyond the largest float, NaN, texts that have no UTF-8, and names that
    come twice in an object: readers do not agree on them.
    """
    check_parts(document)
    try:
        loaded = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        return _load_exactly(document, error)
    try:
        written = orjson.dumps(loaded)
    except TypeError:  # more levels than it writes
        return loaded if _is_nested_deeper(loaded, MAX_NESTING) else _load_exactly(document, None)
    if written == document or written.translate(None, _SPACE) == document.translate(None, _SPACE):
        return loaded
    return _load_exactly(document, None)


def check_parts(document: bytes | bytearray, limit: int = MAX_PARTS) -> None:
    """Raise ValueError if a document has more than so many arrays, objects and values."""
    if _parts_in(document) > limit and _parts_in(_TEXT.sub(b"", document)) > limit:
        raise ValueError(f"more than {limit:,} values")


def _parts_in(document: bytes | bytearray) -> int:
    return document.count(b",") + document.count(b"{") + document.count(b"[")


def load_for_comparison(document: bytes | bytearray) -> Any:
    """Return what a JSON document says, for `is_same_json`; ValueError if it is no JSON, or too large to look
    into (`COMPARED_PARTS`).

    Of a name that comes twice the last value is taken. NaN is taken, and equals nothing.
    """
    check_parts(document, COMPARED_PARTS)
    if not _needs_decimals(document):
        try:
            return orjson.loads(document)
        except orjson.JSONDecodeError:
            pass  # json takes NaN and halves of characters, which should hide no other field
    return _load(document, _COMPARING)


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values of `load_for_comparison` say the same, numbers by their exact value.

    It takes no more time than the digits need, whatever the exponents.
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
    """Compact JSON of what `load_json` gave; ValueError if it is nested deeper than `MAX_NESTING`."""
    try:
        return orjson.dumps(content)
    except TypeError:  # a whole number beyond 64 bits, many levels, or a text that is none
        if _is_nested_deeper(content, MAX_NESTING):
            raise ValueError("nested too deeply") from None
    try:
        return b"".join(_pieces(content))
    except TypeError as error:
        raise ValueError(str(error)) from None


# ---- reading -------------------------------------------------------------------------------------


def _load_exactly(document: bytes | bytearray, error: orjson.JSONDecodeError | None) -> Any:
    """Read with numbers as they are written; `error` is why orjson could not read it at all."""
    is_plain = error is None and _MINUS_ZERO.search(document) is None
    try:
        loaded = _load(document, _KEEPING if is_plain else _JUDGING)
        if (
            error is not None
        ):  # json takes halves of characters, and orjson no number beyond the largest float
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


def _kept_float(text: str) -> Any:
    if isinf(float(text)):
        raise ValueError(f"{text[:40]} is beyond the largest float")
    return orjson.Fragment(text)


def _kept_integer(text: str) -> Any:
    return orjson.Fragment(text) if text == "-0" or len(text) > MAX_INTEGER_DIGITS else int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Of what orjson could read no number is beyond the largest float.
_KEEPING: Final = json.JSONDecoder(parse_float=orjson.Fragment, object_pairs_hook=_distinct)
_JUDGING: Final = json.JSONDecoder(
    parse_float=_kept_float, parse_int=_kept_integer, parse_constant=_refuse, object_pairs_hook=_distinct
)


# ---- comparing -----------------------------------------------------------------------------------


def _needs_decimals(document: bytes | bytearray) -> bool:
    """Return whether a float or 64 bits may not tell a number in the document from all others."""
    kinds = document.translate(_KINDS)
    return _MANY_DIGITS in kinds or (_MAYBE_EXPONENT in kinds and _EXPONENT.search(document) is not None)


def _decimal(text: str) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond those of decimals: it equals nothing
        return orjson.Fragment(text)


def _compared_integer(text: str) -> Any:
    return Decimal(text) if len(text) > MAX_INTEGER_DIGITS else int(text)


_COMPARING: Final = json.JSONDecoder(
    parse_float=_decimal, parse_int=_compared_integer, parse_constant=orjson.Fragment
)


def _scalar(value: Any) -> Any:
    """Return what equals that of another value if both are the same: in Python True equals 1."""
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, float):
        # The shortest decimal that gives this float is the text that was written.
        return int(value) if value.is_integer() and abs(value) < _EXACT_FLOATS else Decimal(repr(value))
    return value


# ---- writing -------------------------------------------------------------------------------------


def _pieces(content: Any) -> list[bytes]:
    """Write without a call for each level; TypeError for a text that has no UTF-8."""
    pieces: list[bytes] = []
    waiting: list[Any] = [content]  # what is still to write, the next at the end; bytes as they are
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
    """Return whether arrays and objects are nested more than `levels` deep."""
    within = [content]
    for _ in range(levels + 1):
        within = [each for each in within if isinstance(each, (dict, list))]
        if not within:
            return False
        within = [part for each in within for part in (each.values() if isinstance(each, dict) else each)]
    return True
