"""JSON whose numbers keep their value, however many digits and whatever exponent they have.

A float holds some 17 digits, and orjson makes one of whole numbers beyond 64 bits, too. Numbers that would
change are kept as they were written (`orjson.Fragment`), or compared as decimals. Most documents have none,
which a look at their bytes shows, and are orjson's.
"""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson

# orjson writes 254 levels, and json as many as the interpreter has room for, which anyone may set: so many,
# then, whatever is set and wherever the caller stands.
MAX_NESTING: Final = 500
MAX_INTEGER_DIGITS: Final = 4_000  # by default Python makes no int of more: its time is quadratic in them
# A figure or a point, and the sign and letter of an exponent, each by one byte.
_KINDS: Final = bytes(
    ord("0") if chr(code) in "0123456789." else ord("e") if chr(code) in "eE" else ord(" ")
    for code in range(256)
)
_MANY_DIGITS: Final = b"0" * 17  # of 15 and a point each float gives back the same digits
_MAYBE_EXPONENT: Final = re.compile(rb"[0-9][eE]")
_EXPONENT: Final = re.compile(rb"[0-9][eE][+-]?[0-9]{3}")


def needs_care(document: bytes | bytearray) -> bool:
    """Return whether a number in the document may be one that a float or 64 bits do not hold."""
    kinds = document.translate(_KINDS)
    return _MANY_DIGITS in kinds or (b"0e" in kinds and _EXPONENT.search(document) is not None)


def load_json(document: bytes | bytearray) -> Any:
    """Return what a JSON document says, for `dump_json` to write; ValueError if it is none.

    Numbers that would change are an `orjson.Fragment`, whole numbers beyond 64 bits an int. Numbers beyond
    the largest float, NaN and texts that have no UTF-8 are refused: readers do not agree on them.
    """
    loaded = orjson.loads(document)
    return loaded if not needs_care(document) else _load(document, _kept_float, int)


def load_for_comparison(document: bytes | bytearray) -> Any:
    """Return what a JSON document says, with each number so that two are equal when their values are.

    ValueError if it is no JSON. Comparing takes no more time than the digits need, whatever the exponents.
    """
    if not needs_care(document) and b"." not in document and not _MAYBE_EXPONENT.search(document):
        return orjson.loads(document)  # has whole numbers alone
    return _load(document, _compared_float, _compared_integer)


def dump_json(content: Any) -> bytes:
    """Compact JSON of what `load_json` gave; ValueError if it is nested deeper than `MAX_NESTING`."""
    try:
        return orjson.dumps(content)
    except TypeError:  # a whole number beyond 64 bits, many levels, or a text that is none
        if _is_nested_deeper(content, MAX_NESTING):
            raise ValueError("nested too deeply") from None
    try:
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    except TypeError:  # json writes no Fragment
        return _with_fragments(content)


def _load(document: bytes | bytearray, parse_float: Any, parse_integer: Any) -> Any:
    try:
        # As text, since json guesses at the encoding of bytes.
        loaded = json.loads(
            document.decode(), parse_float=parse_float, parse_int=parse_integer, parse_constant=_refuse
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return loaded


def _kept_float(text: str) -> Any:
    number = float(text)
    try:
        is_kept = Decimal(repr(number)) == Decimal(text)
    except InvalidOperation:  # an exponent beyond those of decimals
        is_kept = False
    return number if is_kept else orjson.Fragment(text)


def _compared_float(text: str) -> Any:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond those of decimals: it equals nothing
        return orjson.Fragment(text)


def _compared_integer(text: str) -> Any:
    return Decimal(text) if len(text) > MAX_INTEGER_DIGITS else int(text)


def _with_fragments(content: Any) -> bytes:
    """Write it with whole numbers beyond 64 bits as Fragments; ValueError if it is nested too deeply."""

    def prepared(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: prepared(value) for name, value in part.items()}
        if isinstance(part, list):
            return [prepared(value) for value in part]
        if isinstance(part, int) and not -(2**63) <= part < 2**64:
            return orjson.Fragment(str(part))
        return part

    try:
        return orjson.dumps(prepared(content))
    except (TypeError, RecursionError):
        raise ValueError("nested too deeply") from None


def _is_nested_deeper(content: Any, levels: int) -> bool:
    """Return whether arrays and objects are nested more than `levels` deep."""
    within = [content]
    for _ in range(levels + 1):
        within = [each for each in within if isinstance(each, (dict, list))]
        if not within:
            return False
        within = [part for each in within for part in (each.values() if isinstance(each, dict) else each)]
    return True


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
