"""Java as judge of `subscribePattern`: java.util.regex finds patterns in the same names as we do."""

import re
from random import Random

import pytest

from ottla.pipeline.source.java_regex import PatternError, translated
from tests.compat.java.conftest import AskJava
from tests.compat.java.test_topic_regex import judgements
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

    judged = judgements(ask_java, names, patterns, "find")

    assert len(judged) == len(patterns)
    ours = [answer(pattern, names) for pattern in patterns]
    wrong = [
        (pattern, mine, judgement)
        for pattern, mine, judgement in zip(patterns, ours, judged, strict=True)
        if mine not in (judgement, "refused")
        # Java rejects a look-behind with an unbounded repetition, even if the repeated part is empty.
        and not (judgement == "refused" and ("(?<!" in pattern or "(?<=" in pattern))
    ]
    assert not wrong, f"{len(wrong)} of {len(patterns)}: {wrong[:5]}"
    taken = [judgement != "refused" for judgement in judged]
    refused = [
        pattern
        for pattern, mine, is_taken in zip(patterns, ours, taken, strict=True)
        if is_taken and mine == "refused"
    ]
    assert sum(taken) > len(patterns) / 2
    # Python has no look-behinds of variable length, and Java's reading of && beside & is not worth copying.
    refused = [one for one in refused if "(?<!" not in one and "(?<=" not in one and "&&&" not in one]
    assert len(refused) < sum(taken) / 20, refused[:20]


def answer(pattern: str, names: list[str]) -> str:
    try:
        compiled = re.compile(translated(pattern))
    except PatternError:
        return "refused"
    return "".join("01"[compiled.search(name) is not None] for name in names)
