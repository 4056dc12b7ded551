"""The option `where`: a filter of records in the syntax of SQL's WHERE, conditions joined by AND.

    topic = 'orders' AND partition IN (0, 1) AND offset >= 199990 AND timestamp < '2026-11-27T10:00:00Z'

The text is read whole or refused: an ignored condition would give rows that the user did not ask for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from ottla.pipeline.option_values import shown
from ottla.pipeline.source.option_names import WHERE
from ottla.pipeline.source.record_filter import (
    FILTERED_COLUMNS,
    US_PER_MS,
    Comparison,
    Condition,
    RecordFilter,
)
from ottla.pipeline.words import OptionError

# Each value may become a range of its own, which costs a fetch.
MAX_VALUES: Final = 1_000
MAX_CHARACTERS: Final = 1_000_000
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<word>[A-Za-z_][A-Za-z_0-9]*)|`(?P<quoted>[^`]*)`"""
    r"""|'(?P<text>(?:[^'\\]|'')*)'|"(?P<double>[^"\\]*)["]"""
    r"""|(?P<number>[+-]?\s?[0-9]+)(?![0-9A-Za-z_.])|(?P<sign><=>|<=|>=|<>|!=|==|[=<>(),]))"""
)
_SIGNS: Final = {**{one.value: one for one in Comparison}, "==": Comparison.EQUAL, "!=": Comparison.NOT_EQUAL}
# `5 <= offset` is `offset >= 5`.
_MIRRORED: Final = {
    Comparison.LESS: Comparison.GREATER,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER_OR_EQUAL,
    Comparison.GREATER: Comparison.LESS,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS_OR_EQUAL,
}
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE: Final = "offset >= 100 AND partition IN (0, 1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str  # word, quoted, text, number, sign; end
    value: str

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.value.upper() == word


_END: Final = _Token(kind="end", value="")


def read_where(text: str) -> RecordFilter:
    """Return the filter of the option; OptionError if its syntax is wrong."""
    if len(text) > MAX_CHARACTERS:
        raise OptionError(WHERE, f"has {len(text)} characters; at most {MAX_CHARACTERS} are allowed")
    reader = _Reader(list(_tokens(text)))
    conditions = reader.conjunction()
    if reader.next is not _END:
        reader.refuse("AND")
    if sum(len(one.values) for one in conditions) > MAX_VALUES:
        raise OptionError(WHERE, f"has more than {MAX_VALUES} values: filter by them in the query")
    return RecordFilter.of(conditions)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise OptionError(
                WHERE, f"cannot be read at {shown(text[position:].strip())}; write it as in {_EXAMPLE}"
            )
        kind = found.lastgroup
        assert kind is not None, found
        # As in Spark, both kinds of quotes enclose text.
        if kind == "text":
            yield _Token(kind="text", value=found[kind].replace("''", "'"))
        else:
            yield _Token(kind="text" if kind == "double" else kind, value=found[kind])
        position = found.end()


class _Reader:
    """Reads conditions from tokens, one token ahead."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def conjunction(self) -> list[Condition]:
        """Read conditions joined by AND."""
        conditions = self._part()
        while self._takes("AND"):
            conditions += self._part()
        return conditions

    def refuse(self, expected: str) -> NoReturn:
        """Raise OptionError for the next token."""
        token = self.next
        if token.is_word("OR") or token.is_word("NOT") or token.is_word("LIKE") or token.is_word("IS"):
            problem = (
                f"has {token.value.upper()}, which only the query can use: here conditions are joined by AND"
            )
        elif token is _END:
            problem = f"ends where {expected} is expected"
        else:
            problem = f"has {shown(token.value)} where {expected} is expected"
        raise OptionError(WHERE, f"{problem}; write it as in {_EXAMPLE}")

    def _part(self) -> list[Condition]:
        # Brackets change nothing in a conjunction, so they are read and dropped. A loop, as a thousand nested
        # brackets would exhaust a recursion.
        opened = 0
        while self._takes("("):
            opened += 1
        conditions = self._condition()
        while opened:
            if self._takes(")"):
                opened -= 1
            elif self._takes("AND"):
                while self._takes("("):
                    opened += 1
                conditions += self._condition()
            else:
                self.refuse("AND")
        return conditions

    def _condition(self) -> list[Condition]:
        if self.next.kind in ("number", "text") or (self.next.is_word("TIMESTAMP") and self._is_literal()):
            token = self._literal()
            comparison = self._comparison()
            column = self._column()
            value = _value(column, token)
            return [
                Condition(column=column, comparison=_MIRRORED.get(comparison, comparison), values=(value,))
            ]
        column = self._column()
        negated = self._takes("NOT")
        if self._takes("IN"):
            comparison = Comparison.NOT_EQUAL if negated else Comparison.EQUAL
            return [Condition(column=column, comparison=comparison, values=self._list(column))]
        if negated:
            self.refuse("IN")
        if self._takes("BETWEEN"):
            first = _value(column, self._literal())
            if not self._takes("AND"):
                self.refuse("AND")
            last = _value(column, self._literal())
            return [
                Condition(column=column, comparison=Comparison.GREATER_OR_EQUAL, values=(first,)),
                Condition(column=column, comparison=Comparison.LESS_OR_EQUAL, values=(last,)),
            ]
        comparison = self._comparison()
        return [Condition(column=column, comparison=comparison, values=(_value(column, self._literal()),))]

    def _is_literal(self) -> bool:
        """Return True if `TIMESTAMP` begins a literal here and is not the column."""
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].kind == "text"

    def _column(self) -> str:
        token = self.next
        if token.kind not in ("word", "quoted"):
            self.refuse("a column")
        name = token.value.lower()
        if name not in FILTERED_COLUMNS:
            if token.is_word("NOT"):
                self.refuse("a column")
            columns = ", ".join(FILTERED_COLUMNS)
            raise OptionError(WHERE, f"names {shown(token.value)}; {columns} can be filtered here")
        self._at += 1
        return name

    def _comparison(self) -> Comparison:
        comparison = _SIGNS.get(self.next.value) if self.next.kind == "sign" else None
        if comparison is None:
            self.refuse("a comparison")
        self._at += 1
        return comparison

    def _list(self, column: str) -> tuple[str | int, ...]:
        if not self._takes("("):
            self.refuse("(")
        values = [_value(column, self._literal())]
        while self._takes(","):
            values.append(_value(column, self._literal()))
        if not self._takes(")"):
            self.refuse(")")
        return tuple(values)

    def _literal(self) -> _Token:
        if self.next.is_word("TIMESTAMP") and self._is_literal():
            self._at += 1
        token = self.next
        if token.kind not in ("number", "text"):
            self.refuse("a value")
        self._at += 1
        return token

    def _takes(self, expected: str) -> bool:
        """Skip the next token if it is this word or sign, and return True if it was."""
        token = self.next
        if token.is_word(expected) or (token.kind == "sign" and token.value == expected):
            self._at += 1
            return True
        return False


def _value(column: str, token: _Token) -> str | int:
    """Return a value in the form of conditions; OptionError if it does not fit its column."""
    if column == "topic":
        if token.kind != "text":
            raise OptionError(WHERE, f"compares topic with {shown(token.value)}, which is not text")
        return token.value
    if token.kind == "number":
        digits = token.value.replace(" ", "")
        if len(digits) > 20:
            raise OptionError(
                WHERE, f"compares {column} with {shown(digits)}, which does not fit into 64 bits"
            )
        return int(digits) * (US_PER_MS if column == "timestamp" else 1)
    if column != "timestamp":
        raise OptionError(WHERE, f"compares {column} with {shown(token.value)}, which is not a whole number")
    try:
        if not _TIME.fullmatch(token.value):
            raise ValueError(token.value)
        moment = datetime.fromisoformat(token.value)
    except ValueError:
        raise OptionError(
            WHERE,
            f"compares timestamp with {shown(token.value)}; a time with its zone is expected, as in"
            " '2026-11-27T10:00:00Z', or milliseconds since 1970",
        ) from None
    return (moment - _EPOCH) // timedelta(microseconds=1)
