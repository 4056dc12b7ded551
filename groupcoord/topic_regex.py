"""Regular expressions over topic names in RE2's syntax, as in Apache Kafka (by re2j), by Google's RE2 (D48).

    TopicRegex.compile(pattern).matches(name)     the whole name

RE2 takes at most one step for each character and instruction of its program, whatever the pattern, and other
threads run meanwhile. While it compiles, no other thread runs, so the patterns are bounded here first.
"""

import re
from typing import TYPE_CHECKING, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import re2

MAX_PATTERN_CHARS: Final = 1_000
# Classes such as \pL. One with (?i) takes up to a millisecond to compile; names of topics are ASCII.
MAX_UNICODE_CLASSES: Final = 5
# Of a compiled expression, with all that it learns from names. It also bounds how long RE2 compiles.
MAX_MEMORY_BYTES: Final = 128 << 10
# A `.` takes nine instructions, as any character of UTF-8. A name of 249 characters then takes at most 3 ms
# where that memory does not hold all that RE2 would learn.
MAX_INSTRUCTIONS: Final = 4_096

# RE2's error texts, with those of re2j, which clients of Apache Kafka get.
_RE2J_WORDS: Final = {
    "invalid character class": "missing closing ]",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": f"needs more than {MAX_MEMORY_BYTES >> 10} KiB",
}


_LITERALS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_NAMED_GROUP: Final = re.compile(r"\(\?P?<(\w+)>")


class TopicRegex:
    """A compiled expression for any thread; at most MAX_MEMORY_BYTES with all that it learns from names."""

    __slots__ = ("_regex",)

    @classmethod
    def compile(cls, pattern: str, field: str = "SubscribedTopicRegex") -> "TopicRegex":
        """Compile a pattern; INVALID_REGULAR_EXPRESSION, with the reason, for a bad or too large one.

        `field` names it in that sentence.
        """
        try:
            return cls(_compiled(pattern))
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"{field} `{pattern}` is not a valid regular expression: {error.detail}.",
            ) from error

    def __init__(self, regex: "re2._Regexp") -> None:
        self._regex = regex

    def matches(self, name: str) -> bool:
        """Return True if the whole name matches."""
        return self._regex.fullmatch(name.encode("utf-8", "replace")) is not None


def _compiled(pattern: str) -> "re2._Regexp":
    if len(pattern) > MAX_PATTERN_CHARS:
        raise _refused(f"longer than {MAX_PATTERN_CHARS} characters")
    if pattern.count("\\p") + pattern.count("\\P") > MAX_UNICODE_CLASSES:
        raise _refused(f"more than {MAX_UNICODE_CLASSES} Unicode classes")
    import re2  # 7 ms and 4 MB, for the first expression of a process

    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True  # no caller asks for groups
    options.log_errors = False
    try:
        regex = re2.compile(pattern.encode(), options)
    except UnicodeEncodeError:
        raise _refused("invalid UTF-8") from None
    except re2.error as error:
        raise _refused(_in_re2j_words(error.args[0])) from None
    finally:
        re2.purge()  # else the last 128 are kept, with all that they learned
    names = _NAMED_GROUP.findall(_LITERALS.sub("", pattern))
    if len(names) != len(set(names)):  # RE2 accepts them, re2j does not
        raise _refused("duplicate capture group name")
    if regex.programsize > MAX_INSTRUCTIONS:
        raise _refused(f"needs more than {MAX_INSTRUCTIONS} instructions")
    return regex


def _in_re2j_words(message: bytes | str) -> str:
    """Return RE2's message in the words of re2j, without the part of the pattern that it quotes."""
    words = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    reason = words.split(":")[0]
    return _RE2J_WORDS.get(reason, reason)


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, reason)
