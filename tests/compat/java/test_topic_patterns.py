"""Java as the reference for `subscribePattern`: java.util.regex finds a pattern in the same names as ours."""

import re
from random import Random

import pytest

from ottla.pipeline.source.java_regex import PatternError, translated
from tests.compat.java.conftest import AskJava
from tests.compat.java.test_topic_regex import answers_of
from tests.unit.pipeline.source.test_java_regex import FOUND, NAMES

PATTERNS = 4_000

pytestmark = [pytest.mark.java, pytest.mark.slow]

ATOM_LINES = r"""
a b c k K s - _ . 0 1 9 Z & ] \. \d \D \w \W \s \h \pL \PL \p{Lu} \P{Ll} \p{Alpha} \p{Lower} \p{Upper}
\p{Punct} \p{Alnum} \p{IsLatin} \p{javaLowerCase} \p{L1} \p{P} \x41 \x{62} \u0063 \0101 \Qa.b\E
\Q.\E \b \B \A \z \Z ^ $ . \1 \2 \k<n> \t
"""
MEMBER_LINE = r"a b-k c z A-Z 0-9 _ . - & ^ \d \w \W \p{Lower} \P{Alpha} \Q]^\E \] \\ \x61 [k-s] [ab[c]]"
ATOMS = ATOM_LINES.split()
MEMBERS = MEMBER_LINE.split()
SUFFIXES = ["", "", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "*+", "?+", "{1,2}+"]
GROUPS = ["(", "(", "(?:", "(?<n>", "(?=", "(?!", "(?>", "(?i:", "(?-i:", "(?x:", "(?i-s:", "(?<=", "(?<!"]
FLAGS = ["(?i)", "(?-i)", "(?x)", "(?u)", "(?s)"]


def random_class(random: Random, depth: int) -> str:
    members = [
        random_class(random, depth - 1) if depth and random.random() < 0.15 else random.choice(MEMBERS)
        for _ in range(random.randint(1, 4))
    ]
    inner = ("&&" if random.random() < 0.3 else "").join(members)
    return f"[{'^' if random.random() < 0.3 else ''}{inner}]"


def random_pattern(random: Random, depth: int) -> str:
    parts = []
    for _ in range(random.randint(1, 4)):
        kind = random.random()
        if depth and kind < 0.25:
            part = random.choice(GROUPS) + random_pattern(random, depth - 1) + ")"
        elif kind < 0.45:
            part = random_class(random, 2)
        elif kind < 0.5:
            parts.append(random.choice(("|", *FLAGS)))
            continue
        else:
            part = random.choice(ATOMS)
        parts.append(part + random.choice(SUFFIXES))
    return "".join(parts)


def test_java_finds_patterns_in_the_same_names(ask_java: AskJava) -> None:
    random = Random(17)
    names = [*NAMES, "K", "ab.c", "Zz", "-", "_"]
    names += ["".join(random.choices("aabbckKsSzZ019._-", k=random.randint(1, 8))) for _ in range(30)]
    patterns = [*(pattern for pattern, _ in FOUND), *(random_pattern(random, 2) for _ in range(PATTERNS))]

    theirs = answers_of(ask_java, names, patterns, "find")

    assert len(theirs) == len(patterns)
    ours = [answer(pattern, names) for pattern in patterns]
    wrong = [
        (pattern, mine, answer)
        for pattern, mine, answer in zip(patterns, ours, theirs, strict=True)
        if mine not in (answer, "rejected")
        # Java rejects a look-behind with an unbounded repetition, even if the repeated part is empty.
        and not (answer == "rejected" and ("(?<!" in pattern or "(?<=" in pattern))
    ]
    assert not wrong, f"{len(wrong)} of {len(patterns)}: {wrong[:5]}"
    taken = [answer != "rejected" for answer in theirs]
    rejected = [
        pattern
        for pattern, mine, is_taken in zip(patterns, ours, taken, strict=True)
        if is_taken and mine == "rejected"
    ]
    assert sum(taken) > len(patterns) / 2
    # Python has no look-behinds of variable length, and Java's reading of && beside & is not worth copying.
    rejected = [one for one in rejected if "(?<!" not in one and "(?<=" not in one and "&&&" not in one]
    assert len(rejected) < sum(taken) / 20, rejected[:20]


def answer(pattern: str, names: list[str]) -> str:
    try:
        compiled = re.compile(translated(pattern))
    except PatternError:
        return "rejected"
    return "".join("01"[compiled.search(name) is not None] for name in names)
