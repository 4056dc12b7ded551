"""Sets of characters for expressions over the names of topics: 128 bits, one for each ASCII character.

Two more bits stand for the only characters beyond ASCII whose other case is ASCII: the Kelvin sign (K) and
the long s (s). Without them `(?i)` would go wrong where a class has these.
"""

import unicodedata
from collections.abc import Iterable, Mapping

KELVIN, LONG_S = "\u212a", "\u017f"
_BEYOND = {KELVIN: 128, LONG_S: 129}
ASCII = (1 << 128) - 1
ALL = (1 << 130) - 1


def set_of(letters: Iterable[str]) -> int:
    """The set of these characters; one that no topic's name can have leaves it empty."""
    chars = 0
    for letter in letters:
        bit = _BEYOND.get(letter, ord(letter))
        chars |= 1 << bit if bit < 130 and (bit < 128 or letter in _BEYOND) else 0
    return chars


def set_of_range(low: str, high: str) -> int:
    """The set of all from one character to another, both included."""
    chars = set_of(letter for letter in _BEYOND if low <= letter <= high)
    first, last = ord(low), min(ord(high), 127)
    return chars | ((1 << last + 1) - (1 << first) if first <= last else 0)


NEWLINE = set_of("\n")
_UPPER, _LOWER, _DIGITS = set_of_range("A", "Z"), set_of_range("a", "z"), set_of_range("0", "9")


def folded(chars: int) -> int:
    """The set with the other case of each of its letters."""
    chars |= (chars & _UPPER) << 32 | (chars & _LOWER) >> 32
    for letter, others in ((KELVIN, set_of("kK")), (LONG_S, set_of("sS"))):
        if chars & (others | set_of(letter)):
            chars |= others | set_of(letter)
    return chars


_SPACE = set_of("\t\n\f\r ")
_WORD = _UPPER | _LOWER | _DIGITS | set_of("_")
PERL_CLASSES: Mapping[str, int] = {
    "d": _DIGITS,
    "s": _SPACE,
    "w": _WORD,
    "D": ALL & ~_DIGITS,
    "S": ALL & ~_SPACE,
    "W": ALL & ~_WORD,
}
_GRAPH = set_of_range("!", "~")
POSIX_CLASSES: Mapping[str, int] = {
    "alnum": _UPPER | _LOWER | _DIGITS,
    "alpha": _UPPER | _LOWER,
    "ascii": ASCII,
    "blank": set_of("\t "),
    "cntrl": set_of_range("\0", "\x1f") | set_of("\x7f"),
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": set_of_range(" ", "~"),
    "punct": _GRAPH & ~(_UPPER | _LOWER | _DIGITS),
    "space": _SPACE | set_of("\v"),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | set_of("abcdefABCDEF"),
}
_CATEGORY_NAMES = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
    """
_CATEGORIES = frozenset(_CATEGORY_NAMES.split())
# The scripts that re2j 1.8 knows. ASCII letters are Latin, the rest of ASCII is Common.
_SCRIPT_NAMES = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari
    Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew
    Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada
    Katakana Kayah_Li Kharoshthi Khmer Lao Latin Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic
    Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian
    Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese
    Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
    Ugaritic Unknown Vai Yi
    """
_SCRIPTS = frozenset(_SCRIPT_NAMES.split())


def unicode_class(name: str) -> int | None:
    """What `\\p{name}` is: a category, a script, or Any; None for a name that is none of them."""
    if name == "Any":
        return ALL
    if name in _CATEGORIES:
        letters = [*map(chr, range(128)), *_BEYOND]
        return set_of(letter for letter in letters if unicodedata.category(letter).startswith(name))
    if name == "Latin":
        return _UPPER | _LOWER | set_of(_BEYOND)
    if name == "Common":
        return ASCII & ~(_UPPER | _LOWER)
    return 0 if name in _SCRIPTS else None
