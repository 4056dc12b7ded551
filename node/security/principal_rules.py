"""`ssl.principal.mapping.rules`: from the distinguished name of a certificate to the name of a principal.

The notation is Apache Kafka's (`SslPrincipalMapper`), and so is what a rule does with a name that matches as
a whole: *each* place where its pattern is found is replaced. `RULE:(.*)/$1x/` finds a second, empty place at
the end, and adds x twice. Patterns are RE2's, which takes at most a step for each character of a name,
whatever name a certificate has; look-around and references back within a pattern are refused when the node
starts.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import re2

SETTING: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
MAX_RULES_CHARS: Final = 32_768  # of the setting; more could not be sent by AlterConfigs
MAX_MEMORY_BYTES: Final = 8 << 20  # of one compiled pattern: RE2's own default

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)


class NoRuleError(Exception):
    """No rule says how a certificate's name is to be mapped, so nobody is let in with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One rule; None for its pattern stands for DEFAULT."""

    pattern: "re2._Regexp | None"
    replacement: tuple[str | int, ...]  # texts, and numbers of groups
    letter_case: str  # "L", "U" or ""

    def apply(self, name: str) -> str | None:
        """Return the name that this rule makes, None if it does not match."""
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
    """The rules of one listener, in their order; for any thread."""

    __slots__ = ("_rules", "text")

    def __init__(self, text: str) -> None:
        """INVALID_CONFIG, with the rule, for what is none."""
        self.text = text
        if len(text) > MAX_RULES_CHARS:
            raise _invalid(f"it is longer than {MAX_RULES_CHARS} characters.")
        # An empty rule is none, as between two commas.
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
    import re2  # 4 MB, for those who have such rules

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise _invalid(f"the pattern {pattern[:200]!r} cannot be used: {reason}.") from None


def _replacement(text: str, pattern: "re2._Regexp", rule: str) -> tuple[str | int, ...]:
    """Return the parts of a replacement, as Java reads them: `\\` before any character, `$1`, `${name}`.

    A group that the pattern does not have is a literal text, as in Apache Kafka, if it has any other group.
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
    """Return the group that `$` at this position stands for, or a literal text, and what is behind it."""
    named = re.compile(r"\$\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, position)
    if named is not None and named[1] in pattern.groupindex:
        return pattern.groupindex[named[1]], named.end()
    numbered = re.compile(r"\$([0-9]+)").match(text, position)
    if numbered is None or named is not None:
        raise _invalid(f"the replacement of {rule[:200]!r} has a $ that names no group of the pattern.")
    # As many digits as make a group that there is: with 12 groups, $123 is the twelfth and a 3.
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
    """Return all places where a pattern is found, as Java finds them: after an empty one, one further."""
    found = []
    position = 0
    while position <= len(name) and (match := pattern.search(name, position)) is not None:
        found.append(match)
        position = match.end() if match.end() > match.start() else match.end() + 1
    return found


def _invalid(problem: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid configuration {SETTING}: {problem}")
