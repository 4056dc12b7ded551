"""Maps the distinguished name of a certificate to a principal, by `ssl.principal.mapping.rules`.

Notation and behaviour are those of Apache Kafka's `SslPrincipalMapper`: if the whole name matches a pattern,
*each* match of the pattern in it is replaced. `RULE:(.*)/$1x/` has a second, empty match at the end, and
appends x twice. Patterns are RE2's, whose time is linear in the length of a name, however hostile the
certificate. In return, look-around and backreferences are rejected when the node starts.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import re2

SETTING: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
MAX_RULES_CHARS: Final = 32_768  # of the setting; AlterConfigs cannot send more
MAX_MEMORY_BYTES: Final = 8 << 20  # of one compiled pattern: RE2's own default

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)


class NoRuleError(Exception):
    """Raised if no rule matches the name of a certificate; its client is rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A rule. The pattern of DEFAULT is None."""

    pattern: "re2._Regexp | None"
    replacement: tuple[str | int, ...]  # texts, and numbers of groups
    letter_case: str  # "L", "U" or ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        replaced = self._replace_all(self.pattern, name)
        if self.letter_case == "L":
            return replaced.lower()
        return replaced.upper() if self.letter_case == "U" else replaced

    def _replace_all(self, pattern: "re2._Regexp", name: str) -> str:
        made: list[str] = []
        copied = 0
        for match in _found(pattern, name):
            made.append(name[copied : match.start()])
            made += [part if isinstance(part, str) else match.group(part) or "" for part in self.replacement]
            copied = match.end()
        return "".join(made) + name[copied:]


class PrincipalRules:
    """The rules of one listener, tried in order. Thread-safe."""

    __slots__ = ("_rules", "text")

    def __init__(self, text: str) -> None:
        """Parse the setting; INVALID_CONFIG, with the rule, if one is not valid."""
        self.text = text
        if len(text) > MAX_RULES_CHARS:
            raise _invalid(f"it is longer than {MAX_RULES_CHARS} characters.")
        # An empty rule, as between two commas, is ignored.
        self._rules = tuple(_parsed(rule) for rule in _split(text) if rule)

    def name_of(self, distinguished_name: str) -> str:
        """Return the name of the principal; NoRuleError if no rule matches."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleError(f"no rule of {SETTING} applies to {distinguished_name[:1000]}")


def _split(text: str) -> list[str]:
    """Return the rules of the setting. Commas within a rule do not end it."""
    return [match[1] for match in _SPLITTER.finditer(text.strip())]


def _parsed(text: str) -> _Rule:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text) or match[5] is not None:
        raise _invalid(f"invalid rule {text[:200]!r}; it must be DEFAULT or RULE:PATTERN/REPLACEMENT/[LU].")
    if match[1] is not None:
        return _Rule(pattern=None, replacement=(), letter_case="")
    pattern = _compiled(match[2])
    return _Rule(pattern=pattern, replacement=_replacement(match[3], pattern, text), letter_case=match[4])


def _compiled(pattern: str) -> "re2._Regexp":
    import re2  # 4 MB, so loaded on demand

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise _invalid(f"the pattern {pattern[:200]!r} cannot be used: {reason}.") from None


def _replacement(text: str, pattern: "re2._Regexp", rule: str) -> tuple[str | int, ...]:
    """Return the parts of a replacement in Java's notation: `\\` before any character, `$1`, `${name}`.

    As in Apache Kafka, a number that is no group of the pattern is literal text if the pattern has any group.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        one = text[position]
        if one == "\\":
            if position + 1 == len(text):
                raise _invalid(f"the replacement of {rule[:200]!r} ends in a backslash.")
            parts.append(text[position + 1])
            position += 2
        elif one == "$":
            part, position = _reference(text, position, pattern, rule)
            parts.append(part)
        else:
            parts.append(one)
            position += 1
    return tuple(parts)


def _reference(text: str, position: int, pattern: "re2._Regexp", rule: str) -> tuple[str | int, int]:
    """Return the group, or literal text, of the `$` at this position, and the position after it."""
    named = re.compile(r"\$\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, position)
    if named is not None and named[1] in pattern.groupindex:
        return pattern.groupindex[named[1]], named.end()
    numbered = re.compile(r"\$([0-9]+)").match(text, position)
    if numbered is None or named is not None:
        raise _invalid(f"the replacement of {rule[:200]!r} has a $ that names no group of the pattern.")
    # As many digits as make the number of an existing group: with 12 groups, $123 is the twelfth and a 3.
    digits = numbered[1]
    if int(digits[0]) > pattern.groups:
        if not pattern.groups:
            raise _invalid(f"the replacement of {rule[:200]!r} names a group, and the pattern has none.")
        return "$" + digits, numbered.end()
    group, taken = int(digits[0]), 1
    while taken < len(digits) and group * 10 + int(digits[taken]) <= pattern.groups:
        group = group * 10 + int(digits[taken])
        taken += 1
    return group, position + 1 + taken


def _found(pattern: "re2._Regexp", name: str) -> "list[Any]":
    """Return all matches of a pattern as Java finds them: after an empty match it advances by a character."""
    found = []
    position = 0
    while position <= len(name) and (match := pattern.search(name, position)) is not None:
        found.append(match)
        position = match.end() if match.end() > match.start() else match.end() + 1
    return found


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {SETTING}: {problem}")
