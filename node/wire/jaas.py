"""`sasl.jaas.config`: login modules with options, as Kafka's JaasConfig reads them. No class is loaded.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="anna" password="...";

The syntax is that of Java's StreamTokenizer: words, strings in either quote with escapes, comments. A value
that starts like a number must be quoted, as in Kafka.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_CHARS: Final = 256 * 1024  # some thousand users
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_LETTER: Final = r"A-Za-z_$\xa0-\U0010ffff"
_TOKEN: Final = (
    r"(?P<space>[\x00-\x20]+|/\*.*?\*/|/(?!\*)[^\r\n]*)"
    rf"|(?P<word>[{_LETTER}][{_LETTER}0-9.\-]*)"
    r"""|"(?P<double>(?:\\[^\r\n]|[^"\\\r\n])*)"|'(?P<single>(?:\\[^\r\n]|[^'\\\r\n])*)'"""
    r"|(?P<sign>[=;])"
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is no list of login modules; the message names the place, and nothing that may be a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module with its options."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """Return the login modules of a text, at least one; JaasError for invalid text."""
    if len(text) > MAX_CHARS:
        raise JaasError(f"it is longer than {MAX_CHARS} characters")
    tokens = _tokens(text)
    modules = tuple(iter(lambda: _module(tokens), None))
    if not modules:
        raise JaasError("it has no login module")
    return modules


def _module(tokens: Iterator[tuple[str, str]]) -> LoginModule | None:
    """Return the next module, None at the end."""
    kind, name = next(tokens)
    if kind == "end":
        return None
    if kind not in ("word", "string"):
        raise JaasError(f"found {name!r} instead of the name of a login module")
    short = name.rpartition(".")[2][:80]
    kind, flag = next(tokens)
    if kind not in ("word", "string") or flag.lower() not in FLAGS:
        # Not even the name is shown: if all but the password was forgotten, the name is the password.
        raise JaasError(f"the name of a login module is not followed by one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    while (token := next(tokens)) != ("sign", ";"):
        kind, option = token
        if kind == "end":
            raise JaasError(f"{short} does not end with a semicolon")
        if kind not in ("word", "string"):
            raise JaasError(f"in {short}, found {option!r} instead of the name of an option")
        if next(tokens) != ("sign", "="):
            # This option may be a password that was not quoted.
            raise JaasError(f"in {short} the option after {len(options)} others has no value")
        kind, value = next(tokens)
        if kind not in ("word", "string"):
            # This option may be a password that was not quoted.
            raise JaasError(f"in {short} the option after {len(options)} others has no value")
        options[option] = value
    return LoginModule(name=name, flag=flag.lower(), options=options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts without comments, and "end" forever at the end."""
    token = re.compile(_TOKEN, re.DOTALL)  # compiled here, since it takes some ms and few processes need it
    at = 0
    while at < len(text):
        match = token.match(text, at)
        if match is None:
            hint = "; put values into double quotes" if text[at].isalnum() or text[at] in "-.+" else ""
            raise JaasError(f"the character at position {at + 1} is unexpected{hint}")
        at = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield "string", _ESCAPE.sub(_unescaped, match[kind])
        elif kind != "space":
            assert kind is not None
            yield kind, match[0]
    while True:
        yield "end", "the end"


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
