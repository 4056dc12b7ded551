"""Expressions that subscribe to topics, in RE2's syntax (as re2j's, which Apache Kafka takes), bounded.

    TopicRegex.compile(pattern).matches(name)     the whole name

A pattern is parsed into a tree, the tree becomes an automaton of states, and names run through sets of states
that are made when first met. There is no going back: a name takes as many steps as it has characters,
whatever the pattern. Names of topics are ASCII, so sets of characters are 128 bits. Groups, greed and
captures change nothing about whether a whole name matches, and are forgotten once they were checked.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from groupcoord.regex_classes import (
    ALL,
    ASCII,
    NEWLINE,
    PERL_CLASSES,
    POSIX_CLASSES,
    folded,
    set_of,
    set_of_range,
    unicode_class,
)
from logstore.errors import ErrorCode, KafkaError

MAX_PATTERN_CHARS = 1_000
MAX_REPEAT = 1_000  # RE2's
# Groups within groups; RE2 has 1,000, but nobody writes ten.
MAX_DEPTH = 100
# States of the automaton, after repeated parts were written out. RE2 bounds its memory in the same way. Topic
# names have 249 characters at most, so a pattern that needs more asks for what no name can be.
MAX_STATES = 2_500
# Sets of states kept between names, and states in all of them, some 60 bytes each; then they are forgotten
# and made anew.
MAX_KEPT_SETS = 2_000
MAX_KEPT_STATES = 200_000


class Flags(NamedTuple):
    """What `(?i)` and its like switch on; `m` and `U` are allowed and mean nothing for a whole line."""

    fold_case: bool = False
    dot_matches_newline: bool = False


class Node(NamedTuple):
    """A part of a pattern: a set of characters, a place, a sequence, a choice, or a repetition."""

    kind: str  # "set", "place", "all", "any", "repeat"
    chars: int = 0
    place: str = ""
    parts: tuple["Node", ...] = ()
    least: int = 0
    most: int | None = None  # None: no limit
    states: int = 0  # that it will need at most


_EMPTY = Node("all")


def _refused(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, what)


class TopicRegex:
    """A compiled expression. It keeps what it learned from the names before; not for two threads at once."""

    @classmethod
    def compile(cls, pattern: str) -> "TopicRegex":
        """INVALID_REGULAR_EXPRESSION, with the reason, for what is none or would take too much."""
        try:
            if len(pattern) > MAX_PATTERN_CHARS:
                raise _refused(f"longer than {MAX_PATTERN_CHARS} characters")
            return cls(_Parser(pattern).parse())
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error.detail}.",
            ) from error

    def __init__(self, tree: Node) -> None:
        self._automaton = _Automaton(tree)

    def matches(self, name: str) -> bool:
        """Whether the whole name matches; one that is not ASCII cannot be a topic's, and never does."""
        return name.isascii() and self._automaton.accepts(name)

    def forget(self) -> None:
        """Give back what was learned from names: megabytes that point at each other."""
        self._automaton.forget()


# ---- the tree ----------------------------------------------------------------------------------------------


def _set(chars: int) -> Node:
    return Node("set", chars=chars & ASCII, states=1)


def _all(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Node("all", parts=tuple(parts), states=_states(parts))


def _any(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Node("any", parts=tuple(parts), states=_states(parts) + 1)


def _repeat(part: Node, least: int, most: int | None) -> Node:
    copies = max(least, 1) + 1 if most is None else max(most, 1)
    return Node("repeat", parts=(part,), least=least, most=most, states=copies * (part.states + 1))


def _states(parts: list[Node]) -> int:
    return sum(part.states for part in parts)


class _Open(NamedTuple):
    """A group whose end was not met yet: its finished choices, and the flags outside."""

    choices: list[Node]
    parts: list[Node]
    flags: Flags


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = Flags()
        self._names: set[str] = set()
        self._stack: list[_Open] = []
        self._choices: list[Node] = []
        self._parts: list[Node] = []

    def parse(self) -> Node:
        text = self._text
        while self._at < len(text):
            letter = text[self._at]
            if letter == "(":
                self._open()
            elif letter == ")":
                self._close()
            elif letter == "|":
                self._choices.append(_all(self._parts))
                self._parts = []
                self._at += 1
            elif letter in "*+?{":
                self._repetition()
            else:
                self._one(letter)
        if self._stack:
            raise _refused("missing closing )")
        return self._checked(_any([*self._choices, _all(self._parts)]))

    def _one(self, letter: str) -> None:
        self._at += 1
        if letter == "[":
            self._parts.append(_set(self._char_class()))
        elif letter == ".":
            self._parts.append(_set(ALL if self._flags.dot_matches_newline else ALL & ~NEWLINE))
        elif letter in "^$":
            # Without or with (?m): a topic's name is one line.
            self._parts.append(Node("place", place="begin" if letter == "^" else "end", states=1))
        elif letter == "\\":
            self._escape()
        else:
            self._literal(letter)

    def _literal(self, letter: str) -> None:
        chars = set_of(letter)
        self._parts.append(_set(folded(chars) if self._flags.fold_case else chars))

    def _checked(self, node: Node) -> Node:
        if node.states > MAX_STATES:
            raise _refused(f"needs more than {MAX_STATES} states")
        return node

    # ---- groups --------------------------------------------------------------------------------------------

    def _open(self) -> None:
        text = self._text
        self._at += 1
        flags = self._flags
        if text.startswith("?", self._at) and not self._named_group():
            is_over, flags = self._flag_group()
            if is_over:
                self._flags = flags
                return
        if len(self._stack) >= MAX_DEPTH:
            raise _refused(f"more than {MAX_DEPTH} groups within each other")
        self._stack.append(_Open(self._choices, self._parts, self._flags))
        self._choices, self._parts, self._flags = [], [], flags

    def _close(self) -> None:
        if not self._stack:
            raise _refused("unexpected )")
        group = self._checked(_any([*self._choices, _all(self._parts)]))
        self._choices, self._parts, self._flags = self._stack.pop()
        self._parts.append(group)
        self._at += 1

    def _named_group(self) -> bool:
        """Read `?P<name>` or `?<name>`; whether it was one."""
        text = self._text
        prefix = next((one for one in ("?P<", "?<") if text.startswith(one, self._at)), None)
        if prefix is None:
            return False
        end = text.find(">", self._at)
        name = text[self._at + len(prefix) : end] if end >= 0 else ""
        if not name or not all(letter.isascii() and (letter.isalnum() or letter == "_") for letter in name):
            raise _refused("invalid named capture")
        if name in self._names:
            raise _refused("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1
        return True

    def _flag_group(self) -> tuple[bool, Flags]:
        """Read `?flags)` or `?flags:`; whether it was the former, and the flags."""
        text, flags = self._text, self._flags
        is_on, saw_flag = True, False
        for at in range(self._at + 1, len(text)):
            letter = text[at]
            if letter in "imsU":
                saw_flag = True
                if letter == "i":
                    flags = flags._replace(fold_case=is_on)
                elif letter == "s":
                    flags = flags._replace(dot_matches_newline=is_on)
            elif letter == "-" and is_on:
                is_on, saw_flag = False, False
            elif letter in ":)" and (is_on or saw_flag):
                self._at = at + 1
                return letter == ")", flags
            else:
                break
        raise _refused("invalid or unsupported Perl syntax")

    # ---- repetition ----------------------------------------------------------------------------------------

    def _repetition(self) -> None:
        start, text = self._at, self._text
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(text[start], (-1, None))
        if least < 0:
            counts = self._counts()
            if counts is None:
                self._at += 1
                self._literal("{")
                self._refuse_repetition()  # as re2j, which takes a brace alone for a repetition here
                return
            least, most = counts
        else:
            self._at += 1
        if text.startswith("?", self._at):
            self._at += 1  # as few as can be: all the same for a whole name
        if not self._parts:
            raise _refused("missing argument to repetition operator")
        if least > MAX_REPEAT or (most is not None and (most > MAX_REPEAT or most < least)):
            raise _refused("invalid repeat count")
        self._refuse_repetition()
        self._parts.append(self._checked(_repeat(self._parts.pop(), least, most)))

    def _refuse_repetition(self) -> None:
        """Nothing can be repeated twice without a group around it."""
        follows = self._text[self._at : self._at + 1]
        if (follows and follows in "*+?") or (follows == "{" and self._counts() is not None):
            raise _refused("invalid nested repetition operator")

    def _counts(self) -> tuple[int, int | None] | None:
        """Read `{n}`, `{n,}` or `{n,m}`; None, and nothing read, for what is only a brace."""
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_count(least) or not (_is_count(most) or not most):
            return None
        self._at = end + 1
        if len(least) > 4 or len(most) > 4:
            raise _refused("invalid repeat count")
        return int(least), (int(most) if most else None) if comma else int(least)

    # ---- escapes and classes -------------------------------------------------------------------------------

    def _escape(self) -> None:
        """What stands outside of brackets behind a backslash."""
        text = self._text
        letter = text[self._at : self._at + 1]
        if letter == "Q":
            end = text.find("\\E", self._at)
            quoted = text[self._at + 1 : end if end >= 0 else len(text)]
            self._at = end + 2 if end >= 0 else len(text)
            for one in quoted:
                self._literal(one)
            return
        place = {"A": "begin", "z": "end", "b": "boundary", "B": "no boundary"}.get(letter)
        if place is not None:
            self._at += 1
            self._parts.append(Node("place", place=place, states=1))
            return
        chars = self._shorthand()
        if chars is None:
            self._literal(self._escaped())
        else:
            self._parts.append(_set(chars))

    def _shorthand(self) -> int | None:
        """A class such as `\\d` or `\\pL`, read from behind its backslash; None if it is none of them."""
        text = self._text
        letter = text[self._at : self._at + 1]
        if letter and letter in PERL_CLASSES:
            self._at += 1
            return PERL_CLASSES[letter]
        if letter not in ("p", "P"):
            return None
        name, end = text[self._at + 1 : self._at + 2], self._at + 2
        if name == "{":
            close = text.find("}", self._at)
            name, end = (text[self._at + 2 : close], close + 1) if close >= 0 else ("", len(text))
        is_negated = (letter == "P") != name.startswith("^")
        chars = unicode_class(name.removeprefix("^"))
        if chars is None:
            raise _refused("invalid character class range")
        self._at = end
        if self._flags.fold_case:
            chars = folded(chars)
        return ALL & ~chars if is_negated else chars

    def _escaped(self) -> str:
        """One character, read from behind its backslash."""
        text, start = self._text, self._at
        letter = text[start : start + 1]
        if not letter:
            raise _refused("trailing backslash at end of expression")
        self._at += 1
        if letter in "01234567":
            # A single digit from 1 would refer back to a group, which no automaton can.
            digits = 1
            while digits < 3 and text[start + digits : start + digits + 1] in tuple("01234567"):
                digits += 1
            if digits > 1 or letter == "0":
                self._at = start + digits
                return chr(int(text[start : self._at], 8))
        elif letter == "x":
            code = self._hexadecimal()
            if code is not None:
                return chr(code)
        elif letter in "afnrtv":
            return "\a\f\n\r\t\v"["afnrtv".index(letter)]
        elif not (letter.isascii() and letter.isalnum()):
            return letter
        raise _refused("invalid escape sequence")

    def _hexadecimal(self) -> int | None:
        text, start = self._text, self._at
        if text.startswith("{", start):
            end = text.find("}", start)
            digits, self._at = (text[start + 1 : end], end + 1) if end >= 0 else ("", start)
        else:
            digits, self._at = text[start : start + 2], start + 2
            if len(digits) < 2:
                return None
        if not digits or len(digits) > 8 or any(one not in "0123456789abcdefABCDEF" for one in digits):
            return None
        code = int(digits, 16)
        return code if code <= 0x10FFFF else None

    def _char_class(self) -> int:
        """What stands in brackets, read from behind the first."""
        text = self._text
        is_negated = text.startswith("^", self._at)
        self._at += is_negated
        chars, is_first = 0, True
        while is_first or not text.startswith("]", self._at):
            if self._at >= len(text):
                raise _refused("missing closing ]")
            is_first = False
            chars |= self._class_item()
        self._at += 1
        if self._flags.fold_case:
            chars = folded(chars)
        return ALL & ~chars if is_negated else chars

    def _class_item(self) -> int:
        text = self._text
        if text.startswith("[:", self._at):
            end = text.find(":]", self._at + 2)
            if end >= 0:
                name = text[self._at + 2 : end]
                chars = POSIX_CLASSES.get(name.removeprefix("^"))
                if chars is None:
                    raise _refused("invalid character class range")
                self._at = end + 2
                return ALL & ~chars if name.startswith("^") else chars
        if text.startswith("\\", self._at):
            self._at += 1
            shorthand = self._shorthand()
            if shorthand is not None:
                return shorthand
            self._at -= 1
        low = high = self._class_char()
        if text.startswith("-", self._at) and not text.startswith("]", self._at + 1):
            if self._at + 1 >= len(text):
                raise _refused("missing closing ]")
            self._at += 1
            high = self._class_char()
        if high < low:
            raise _refused("invalid character class range")
        return set_of_range(low, high)

    def _class_char(self) -> str:
        if self._at >= len(self._text):
            raise _refused("missing closing ]")
        letter = self._text[self._at]
        self._at += 1
        return self._escaped() if letter == "\\" else letter


def _is_count(text: str) -> bool:
    """Digits, and no zero before others."""
    return text.isascii() and text.isdigit() and not (len(text) > 1 and text[0] == "0")


# ---- the automaton -----------------------------------------------------------------------------------------

_WORD = PERL_CLASSES["w"]
_BEGIN, _OTHER_BEFORE, _WORD_BEFORE = range(3)
_END = -1
Places: TypeAlias = frozenset[str]


class _State(NamedTuple):
    """A state: a set of characters leads to the next one, or a place (or nothing) to several."""

    chars: int | None = None
    place: str = ""
    next: tuple[int, ...] = ()


class _Step:
    """A set of states before a character, what kind of character came before, and where others lead."""

    __slots__ = ("before", "next", "states")

    def __init__(self, states: frozenset[int], before: int) -> None:
        self.states = states
        self.before = before
        self.next: dict[str, _Step] = {}


class _Automaton:
    def __init__(self, tree: Node) -> None:
        self._states: list[_State] = [_State()]  # the first is the end: nothing leads on from it
        self._start = self._build(tree, 0)
        self._steps: dict[tuple[frozenset[int], int], _Step] = {}
        self._kept_states = 0  # in all of them

    def forget(self) -> None:
        """Forget the sets of states. They lead to each other, so nobody else would free them soon."""
        for step in self._steps.values():
            step.next.clear()
        self._steps.clear()
        self._kept_states = 0

    def _add(self, state: _State) -> int:
        self._states.append(state)
        return len(self._states) - 1

    def _build(self, node: Node, then: int) -> int:
        """The first state of a part from whose end `then` goes on."""
        if node.kind == "set":
            return self._add(_State(chars=node.chars, next=(then,)))
        if node.kind == "place":
            return self._add(_State(place=node.place, next=(then,)))
        if node.kind == "all":
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if node.kind == "any":
            return self._add(_State(next=tuple(self._build(part, then) for part in node.parts)))
        (part,) = node.parts
        if node.most is None:
            loop = self._add(_State())
            self._states[loop] = _State(next=(self._build(part, loop), then))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                # As x(x(x)?)?: each further one may be left out with all behind it.
                then = self._add(_State(next=(self._build(part, then), end)))
        for _ in range(node.least):
            then = self._build(part, then)
        return then

    def accepts(self, name: str) -> bool:
        step = self._step(frozenset((self._start,)), _BEGIN)
        for letter in name:
            following = step.next.get(letter)
            if following is None:
                following = step.next[letter] = self._follow(step, letter)
            step = following
            if not step.states:
                return False
        return 0 in self._closure(step, _END)

    def _step(self, states: frozenset[int], before: int) -> _Step:
        step = self._steps.get((states, before))
        if step is None:
            if len(self._steps) >= MAX_KEPT_SETS or self._kept_states > MAX_KEPT_STATES:
                self.forget()
            step = self._steps[states, before] = _Step(states, before)
            self._kept_states += len(states)
        return step

    def _follow(self, step: _Step, letter: str) -> _Step:
        bit = 1 << ord(letter)
        states = [self._states[index] for index in self._closure(step, ord(letter))]
        reached = frozenset(
            state.next[0] for state in states if state.chars is not None and state.chars & bit
        )
        return self._step(reached, _WORD_BEFORE if bit & _WORD else _OTHER_BEFORE)

    def _closure(self, step: _Step, letter: int) -> set[int]:
        """The states that are reached without taking a character; `letter` is the one that follows."""
        is_word_next = letter != _END and bool(_WORD >> letter & 1)
        is_boundary = (step.before == _WORD_BEFORE) != is_word_next
        holds: Mapping[str, bool] = MappingProxyType(
            {
                "": True,
                "begin": step.before == _BEGIN,
                "end": letter == _END,
                "boundary": is_boundary,
                "no boundary": not is_boundary,
            }
        )
        seen = set(step.states)
        waiting = list(step.states)
        while waiting:
            state = self._states[waiting.pop()]
            if state.chars is None and holds[state.place]:
                for following in state.next:
                    if following not in seen:
                        seen.add(following)
                        waiting.append(following)
        return seen
