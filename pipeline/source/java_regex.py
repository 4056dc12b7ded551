r"""Translates regular expressions of java.util.regex to Python's `re`, for names of topics.

Spark's Kafka connector takes Java's syntax, and Python's differs silently: `[a-z&&[^x]]` is an intersection
in Java and some odd characters in Python. `translated(pattern)` parses a pattern by the rules of Java 17, as
java.util.regex.Pattern documents them, and writes it for Python; constructs that `re` lacks are refused by
name.

Names of topics are ASCII, so a character class is a set of these 128 characters and is written as the list of
its members. Flags such as `(?i)` are worked into the sets, since `re` takes none in the middle of a pattern.
So the result means the same in Python as in Java.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

MAX_PATTERN_CHARS: Final = 10_000  # forty of the longest names
MAX_DEPTH: Final = 100  # groups within groups, and classes within classes

Chars = frozenset[str]

_ASCII: Final[Chars] = frozenset(map(chr, range(128)))
_LINE_ENDS: Final[Chars] = frozenset("\n\r")
_SPACES: Final[Chars] = frozenset(" \t\n\x0b\f\r")


def _those(accepted: Callable[[str], bool]) -> Chars:
    return frozenset(filter(accepted, _ASCII))


_DIGITS: Final = _those(str.isdigit)
_LETTERS: Final = _those(str.isalpha)
_CONTROLS: Final = _those(lambda char: unicodedata.category(char) == "Cc")
_IDENTIFIER: Final = _LETTERS | _DIGITS | frozenset("_")
_GRAPHIC: Final = _ASCII - _CONTROLS - frozenset(" ")
# A class by one letter; its capital is the complement.
_PREDEFINED: Final[Mapping[str, Chars]] = {
    "d": _DIGITS,
    "w": _IDENTIFIER,
    "s": _SPACES,
    "h": frozenset(" \t"),
    "v": frozenset("\n\x0b\f\r"),
}
_POSIX: Final[Mapping[str, Chars]] = {
    "Lower": _those(str.islower),
    "Upper": _those(str.isupper),
    "ASCII": _ASCII,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": _GRAPHIC - _LETTERS - _DIGITS,
    "Graph": _GRAPHIC,
    "Print": _GRAPHIC | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": _CONTROLS,
    "XDigit": frozenset("0123456789abcdefABCDEF"),
    "Space": _SPACES,
}
# From java.lang.Character: `\p{javaLowerCase}` is Character.isLowerCase.
_OF_CHARACTER: Final[Mapping[str, Chars]] = {
    "LowerCase": _POSIX["Lower"],
    "UpperCase": _POSIX["Upper"],
    "Alphabetic": _LETTERS,
    "Ideographic": frozenset(),
    "TitleCase": frozenset(),
    "Digit": _DIGITS,
    "Defined": _ASCII,
    "Letter": _LETTERS,
    "LetterOrDigit": _LETTERS | _DIGITS,
    "SpaceChar": frozenset(" "),
    "Whitespace": _SPACES | frozenset("\x1c\x1d\x1e\x1f"),
    "ISOControl": _CONTROLS,
    "Mirrored": frozenset("()<>[]{}"),
}
# Binary properties of Unicode, `\p{IsAlphabetic}`, by the name in capitals.
_BINARY: Final[Mapping[str, Chars]] = {
    "ALPHABETIC": _LETTERS,
    "LETTER": _LETTERS,
    "IDEOGRAPHIC": frozenset(),
    "LOWERCASE": _POSIX["Lower"],
    "UPPERCASE": _POSIX["Upper"],
    "TITLECASE": frozenset(),
    "PUNCTUATION": _those(lambda char: unicodedata.category(char).startswith("P")),
    "CONTROL": _CONTROLS,
    "WHITE_SPACE": _SPACES,
    "DIGIT": _DIGITS,
    "HEX_DIGIT": _POSIX["XDigit"],
    "ASSIGNED": _ASCII,
    # Scripts.
    "LATIN": _LETTERS,
    "COMMON": _ASCII - _LETTERS,
}
_CATEGORY: Final = re.compile(r"LC|L[ultmo]?|M[nce]?|N[dlo]?|Z[slp]?|C[cfosn]?|P[dsecoif]?|S[mcko]?")
_CONTROL_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
# Java and Python have the same anchors except for the letter; names have no line ends.
_ANCHORS: Final = {"b": r"\b", "B": r"\B", "A": r"\A", "Z": r"\Z", "z": r"\Z"}
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_REPEAT: Final = re.compile(r"\{(\d+)(,?)(\d*)\}")
_NOTHING: Final = "(?!)"


class PatternError(ValueError):
    """A pattern that Java would refuse, or that has no equal in Python; the message says which part it is."""


def translated(pattern: str) -> str:
    """Return a pattern for Python's `re` that finds in a topic's name what Java finds with `pattern`.

    Raises PatternError for a pattern that Java would refuse, or for a construct that Python lacks.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    translation = _Translation(_without_quotes(pattern))
    text = translation.whole()
    try:
        re.compile(text)
    except re.error as error:
        raise PatternError(f"it cannot be translated for Python: {error.msg}") from None
    except (RecursionError, OverflowError) as error:
        raise PatternError(f"it is too large: {error}") from None
    return text


def _without_quotes(pattern: str) -> str:
    r"""Return the pattern with `\Q...\E` written as escaped characters, as Java does before anything else."""
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith(r"\Q", at):
            end = pattern.find(r"\E", at + 2)
            quoted = pattern[at + 2 : end if end >= 0 else len(pattern)]
            at = len(pattern) if end < 0 else end + 2
            # A digit could end an escape before it, as \1.
            pieces += [
                char if char in _LETTERS or char not in _ASCII else f"\\x{ord(char):02x}" for char in quoted
            ]
            continue
        step = 2 if pattern[at] == "\\" else 1
        pieces.append(pattern[at : at + step])
        at += step
    return "".join(pieces)


@dataclass(slots=True)
class _Translation:
    """A walk over a pattern. `flags` are the flags in force at the current place."""

    text: str
    at: int = 0
    depth: int = 0
    groups: int = 0
    flags: frozenset[str] = frozenset()
    names: dict[str, int] = field(default_factory=dict)  # of groups, with their numbers
    early_references: list[int] = field(default_factory=list)  # to groups that have not begun

    # ---- the walk --------------------------------------------------------------------------------------

    def whole(self) -> str:
        written = self._alternatives()
        if self.at < len(self.text):
            self._refuse("there is a ) without a (")
        for number in self.early_references:
            if number <= self.groups:
                self._refuse(f"\\{number} comes before group {number}, which Python does not support")
        return written

    def _alternatives(self) -> str:
        """Read up to the end of the group or of the pattern."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} groups are nested")
        written = []
        while (char := self._peek()) not in ("", ")"):
            if char == "|":
                self.at += 1
                written.append("|")
            else:
                written.append(self._piece())
        self.depth -= 1
        return "".join(written)

    def _piece(self) -> str:
        """Read one atom with its quantifier; "" for a comment or a change of flags."""
        atom = self._atom()
        if atom is None:
            return ""
        self._skip_comments()
        quantifier = self._quantifier()
        if quantifier and self._peek() in ("*", "+", "?", "{"):
            self._refuse("a quantifier follows another quantifier")
        if len(quantifier) > 1 and quantifier.endswith("+"):
            # Possessive. Python's own fails before 3.11.5 if the part backtracks (gh-106052).
            return f"(?>(?:{atom}){quantifier[:-1]})"
        return f"(?:{atom}){quantifier}" if quantifier else atom

    def _atom(self) -> str | None:
        if self._skip_comments() and self._peek() in ("", "|", ")"):
            return None
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._written(self._class())
            case "\\":
                return self._escape()
            case ".":
                return self._written(_ASCII if "s" in self.flags else _ASCII - _LINE_ENDS)
            case "^" | "$":
                return char
            case "*" | "+" | "?":
                self._refuse(f"there is nothing before {char} to repeat", back=1)
            case "{":
                self._refuse("{ does not begin a repetition here; write \\{ for a brace", back=1)
            case _:
                return self._written(self._folded(frozenset(char)))

    def _quantifier(self) -> str:
        char = self._peek()
        if char in ("*", "+", "?"):
            self.at += 1
        elif char == "{":
            found = _REPEAT.match(self.text, self.at)
            if found is None:
                self._refuse("{ does not begin a repetition here; write \\{ for a brace")
            least, most = found[1], found[3]
            if len(least) > 9 or len(most) > 9:
                self._refuse("a repetition has too high a count")
            if most and int(most) < int(least):
                self._refuse(f"{found[0]} is not a range")
            self.at = found.end()
            char = found[0]
        else:
            return ""
        if self._peek() in ("?", "+"):
            char += self._take()
        return char

    def _skip_comments(self) -> bool:
        """Skip blanks and comments under `(?x)`; return True if there were any."""
        before = self.at
        while "x" in self.flags and self._peek():
            if self._peek() in _SPACES:
                self.at += 1
            elif self._peek() == "#":
                ends = [end for end in (self.text.find(one, self.at) for one in "\n\r") if end >= 0]
                self.at = min(ends, default=len(self.text))
            else:
                break
        return self.at > before

    # ---- groups ----------------------------------------------------------------------------------------

    def _group(self) -> str | None:
        if self._peek() != "?":
            self.groups += 1
            return self._rest_of_group("(")
        self.at += 1
        for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
            if self.text.startswith(opening[1:], self.at):
                self.at += len(opening) - 1
                return self._rest_of_group(f"({opening}")
        if self._peek() == "<":
            self.at += 1
            name = self._group_name()
            if name in self.names:
                self._refuse(f"two groups are named {name}")
            self.groups += 1
            self.names[name] = self.groups
            return self._rest_of_group("(")
        return self._flags()

    def _rest_of_group(self, opening: str) -> str:
        flags = self.flags
        inner = self._alternatives()
        if self._peek() != ")":
            self._refuse("there is a ( without a )")
        self.at += 1
        self.flags = flags
        return f"{opening}{inner})"

    def _flags(self) -> str | None:
        """Read `(?i-s)`, which holds to the end of the group around it, or `(?i-s:...)`."""
        before, is_on = self.flags, True
        now = set(before)
        while (char := self._take("a flag")) not in (")", ":"):
            if char == "-" and is_on:
                is_on = False
            elif char in "idmsuxU":
                (now.add if is_on else now.discard)(char)
            else:
                self._refuse(f"(?{char} does not begin a known kind of group", back=1)
        self.flags = frozenset(now)
        if char == ")":
            if self._peek() in ("*", "+", "?", "{"):
                self._refuse("a quantifier follows flags")
            return None
        written = self._rest_of_group("(?:")
        self.flags = before
        return written

    def _group_name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None or not self.text.startswith(">", found.end()):
            self._refuse("the name of a group must be letters and digits between < and >")
        self.at = found.end() + 1
        return found[0]

    # ---- escapes ---------------------------------------------------------------------------------------

    def _escape(self) -> str:
        """Read what follows a backslash outside of a class."""
        char = self._peek()
        if char in _ANCHORS:
            self.at += 1
            return _ANCHORS[char]
        if char in "123456789" and char:
            return self._reference()
        if char == "k":
            self.at += 1
            if self._take("<name>") != "<":
                self._refuse("\\k has no <name>")
            name = self._group_name()
            if name not in self.names:
                self._refuse(f"there is no group {name} before \\k<{name}>")
            return self._referring(f"(?:\\{self.names[name]})")
        if char == "R":
            self.at += 1
            return "(?:\r\n|[\n\x0b\f\r])"
        if char == "X":
            self.at += 1
            return "(?:\r\n|[\\s\\S])"
        return self._written(self._escaped_chars())

    def _reference(self) -> str:
        r"""Read `\12`: group 12 if there are that many so far, otherwise group 1 and a 2, as in Java."""
        number = int(self._take())
        while (digit := self._peek()) in _DIGITS and number * 10 + int(digit) <= self.groups:
            number = number * 10 + int(digit)
            self.at += 1
        if number > self.groups:  # in Java a group that has matched nothing, so the reference matches nothing
            self.early_references.append(number)
            return _NOTHING
        return self._referring(f"(?:\\{number})")

    def _referring(self, reference: str) -> str:
        return f"(?i:{reference})" if "i" in self.flags else reference

    def _escaped_chars(self) -> Chars:
        """Read a class such as `\\d` or `\\p{Alpha}`, or an escaped character."""
        char = self._peek()
        if char.lower() in _PREDEFINED:
            self.at += 1
            chosen = _PREDEFINED[char.lower()]
            return chosen if char.islower() else _ASCII - chosen
        if char in ("p", "P"):
            self.at += 1
            chosen = self._folded(self._property())
            return chosen if char == "p" else _ASCII - chosen
        return self._folded(frozenset(self._escaped_char()))

    def _escaped_char(self) -> str:
        char = self._take("a character")
        if char in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[char]
        match char:
            case "0":
                found = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?").match(self.text, self.at)
                return self._numbered(found, 8, "\\0")
            case "x" if self._peek() == "{":
                found = re.compile(r"\{([0-9a-fA-F]{1,8})\}").match(self.text, self.at)
                return self._numbered(found, 16, "\\x{", group=1)
            case "x":
                return self._numbered(re.compile("[0-9a-fA-F]{2}").match(self.text, self.at), 16, "\\x")
            case "u":
                return self._numbered(re.compile("[0-9a-fA-F]{4}").match(self.text, self.at), 16, "\\u")
            case "c":
                return chr(ord(self._take("a character")) ^ 64)
            case _:
                pass
        if char in _LETTERS or char in _DIGITS:
            self._refuse(f"\\{char} is not supported by Python, or has no meaning in Java", back=2)
        return char

    def _numbered(self, found: re.Match[str] | None, base: int, escape: str, group: int = 0) -> str:
        if found is None or (code := int(found[group], base)) > 0x10FFFF:
            self._refuse(f"{escape} must be followed by the number of a character")
        self.at = found.end()
        return chr(code)

    def _property(self) -> Chars:
        r"""Read the name after `\p`."""
        name = self._take("a property")
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                self._refuse("\\p has no closing brace")
            name = self.text[self.at : end]
            self.at = end + 1
        found = property_named(name)
        if found is None:
            self._refuse(f"\\p{{{name[:40]}}} is not supported; names of topics are ASCII")
        return found

    # ---- classes ---------------------------------------------------------------------------------------

    def _class(self) -> Chars:
        """Read a class after its opening bracket: unions, and their intersection (&&)."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} classes are nested")
        is_complement = self._peek() == "^"
        self.at += is_complement
        chosen: Chars | None = None
        union: set[str] = set()
        is_empty = True  # the union so far: a ] that comes first is a member
        while True:
            self._skip_comments()
            if self.text.startswith("&&", self.at):
                if is_empty:
                    self._refuse("there is nothing before &&")
                self.at += 2
                if self._peek() == "&":
                    self._refuse("&& is followed by &")
                chosen = frozenset(union) if chosen is None else chosen & union
                union, is_empty = set(), True
                continue
            char = self._take("]")
            if char == "]" and not is_empty:
                break
            if char == "]" and chosen is not None:
                self._refuse("there is nothing after &&")
            union |= self._class() if char == "[" else self._range(char)
            is_empty = False
        self.depth -= 1
        found = frozenset(union) if chosen is None else chosen & union
        return _ASCII - found if is_complement else found

    def _range(self, char: str) -> Chars:
        """Read a character of a class, with the end of its range if it has one."""
        if char == "\\":
            if self._peek().lower() in ("p", *_PREDEFINED):
                return self._escaped_chars()
            char = self._escaped_char()
        self._skip_comments()
        following = self.text[self.at + 1 : self.at + 2]
        if self._peek() != "-" or following in ("[", "]"):
            return self._folded(frozenset(char))
        self.at += 1
        self._skip_comments()
        last = self._take("the end of a range")
        if last == "\\":
            last = self._escaped_char()
        if last < char:
            self._refuse(f"{char}-{last} is not a range")
        return self._folded(frozenset(one for one in _ASCII if char <= one <= last))

    # ---- letters ---------------------------------------------------------------------------------------

    def _folded(self, chars: Chars) -> Chars:
        """Return the ASCII characters among these, in both cases under `(?i)`."""
        if "i" in self.flags:
            chars = frozenset(one for char in chars & _ASCII for one in (char.lower(), char.upper()))
        return chars & _ASCII

    @staticmethod
    def _written(chars: Chars) -> str:
        if not chars:
            return _NOTHING
        if len(chars) == 1:
            return re.escape(*chars)
        return _class_of(chars)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, wanted: str = "more") -> str:
        if self.at >= len(self.text):
            self._refuse(f"it ends where {wanted} is expected")
        self.at += 1
        return self.text[self.at - 1]

    def _refuse(self, problem: str, *, back: int = 0) -> NoReturn:
        raise PatternError(f"{problem} (at character {self.at - back + 1})")


def property_named(name: str) -> Chars | None:
    r"""Return the ASCII characters of the property `\p{name}`; None if this module does not know it."""
    key, separator, value = name.partition("=")
    if separator:
        match key.lower():
            case "gc" | "general_category":
                return _of_category(value)
            case "sc" | "script":
                return _BINARY.get(value.upper()) if value.upper() in ("LATIN", "COMMON") else None
            case "blk" | "block":
                return _of_block(value)
            case _:
                return None
    if name.startswith("In"):
        return _of_block(name[2:])
    if name.startswith("Is"):
        return _BINARY.get(name[2:].upper(), _of_category(name[2:]))
    if name.startswith("java"):
        return _OF_CHARACTER.get(name[4:])
    if name in ("L1", "all"):
        return _ASCII
    return _POSIX.get(name, _of_category(name))


def _of_category(name: str) -> Chars | None:
    if _CATEGORY.fullmatch(name) is None:
        return None
    if name == "LC":
        return _LETTERS
    return _those(lambda char: unicodedata.category(char).startswith(name))


def _of_block(name: str) -> Chars | None:
    return _ASCII if re.sub(r"[ _-]", "", name).upper() == "BASICLATIN" else None


def _class_of(chars: Chars) -> str:
    """Write a class as its characters, runs of three and more as ranges."""
    runs: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if runs and code == runs[-1][-1] + 1:
            runs[-1].append(code)
        else:
            runs.append([code])
    pieces = []
    for run in runs:
        ends = [re.escape(chr(code)) for code in (run[0], run[-1])]
        pieces.append("-".join(ends) if len(run) > 2 else "".join(re.escape(chr(code)) for code in run))
    return f"[{''.join(pieces)}]"
