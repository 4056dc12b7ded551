"""Java as the reference for topic expressions: re2j accepts the same ones, with the same matches."""

import struct
from random import Random

import pytest

from ottla.groupcoord.topic_regex import TopicRegex
from ottla.logstore.words.errors import KafkaError
from tests.compat.java.conftest import AskJava
from tests.unit.groupcoord.test_topic_regex import ACCEPTED, REJECTED

PATTERNS = 3_000
NAMES = 60

pytestmark = [pytest.mark.java, pytest.mark.slow]

LETTERS = "aabbcKks._-019Z"
ATOM_LINES = r"""
\. \d \D \w \W \s \pL \PL \p{Lu} \P{^Ll} \p{Greek} \p{Latin} \p{Common} \pN \x41 \x{62} \101 \Qa.b\E \Q* \b \B
\A \z ^ $ . [ab] [^ab] [a-c] [^a-z] [a-c0-9_-] []a] [[:alpha:]] [[:^digit:]_] [\d.] [^\w] [K] [^K] K ſ ä [à-ÿ]
"""
# No "{" alone: before a repetition, re2j takes it for the start of another one.
ODD_ATOMS = ["}", "]", "{,2}", "x{01}", ")", "[", "\\", "?"]  # mostly errors
ATOMS = [*LETTERS, *ATOM_LINES.replace("K", "\u212a").split()]
SUFFIXES = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,1}", "{2,}"]
ODD_SUFFIXES = ["{3,1}", "**", "{2}{2}"]
GROUPS = [
    "(",
    "(",
    "(?:",
    "(?i)",
    "(?i:",
    "(?-i:",
    "(?s:",
    "(?P<n>",
    "(?<m>",
    "(?U)",
    "(?m)",
    "(?x)",
    "(?=",
    "(?",
]


def test_re2j_accepts_the_same_patterns_and_they_match_the_same_names(ask_java: AskJava) -> None:
    random = Random(848)
    names = ["", "a", "ab.c", "k", "K", "S", "x{01}"]
    names += ["".join(random.choices("aabbckKsSzZ019._-", k=random.randint(1, 8))) for _ in range(NAMES)]
    patterns = [*ACCEPTED, *REJECTED] + [random_pattern(random, depth=2) for _ in range(PATTERNS)]
    # RE2 rejects two groups of one name only if it captures groups.
    patterns = [one for one in patterns if all(one.count(name) < 2 for name in ("<n>", "<m>"))]

    theirs = answers_of(ask_java, names, patterns)

    assert len(theirs) == len(patterns)
    answers = [answer(pattern, names) for pattern in patterns]
    wrong = [
        one
        for one in zip(patterns, answers, theirs, strict=True)
        if one[1] != one[2] and one[1] != "too large"
    ]
    assert not wrong, f"{len(wrong)} of {len(patterns)}: {wrong[:5]}"
    assert answers.count("too large") < len(patterns) / 100
    assert sum(answer == "rejected" for answer in theirs) < len(theirs) * 0.6
    assert sum("1" in answer for answer in theirs) > len(theirs) / 4


def random_pattern(random: Random, *, depth: int) -> str:
    parts = []
    for _ in range(random.randint(1, 4)):
        if depth and random.random() < 0.25:
            inner = random_pattern(random, depth=depth - 1)
            parts.append(random.choice(GROUPS) + inner + (")" if random.random() < 0.97 else ""))
        elif random.random() < 0.1:
            parts.append("|")
        else:
            parts.append(random.choice(ATOMS if random.random() < 0.97 else ODD_ATOMS))
        parts.append(random.choice(SUFFIXES if random.random() < 0.97 else ODD_SUFFIXES))
    return "".join(parts)


def answer(pattern: str, names: list[str]) -> str:
    try:
        compiled = TopicRegex.compile(pattern)
    except KafkaError as error:
        return "too large" if "needs more than" in error.detail else "rejected"
    return "".join("01"[compiled.matches(name)] for name in names)


def answers_of(ask_java: AskJava, names: list[str], patterns: list[str], *arguments: str) -> list[str]:
    content = struct.pack(">i", len(names)) + b"".join(map(_text, [*names, *patterns]))
    return ask_java("RegexReference", *arguments, questions=content).decode().split("\n")[:-1]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded
