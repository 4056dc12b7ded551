"""Docstrings and comments are plain English, in the words of the field.

    python -m tests.tidy.test_english [PATH ...]
prints each place below these paths that breaks a rule.
"""

import sys
from collections import defaultdict

import pytest

from tests.english import Finding, Text, findings, sources, texts


def _findings() -> dict[str, list[Finding]]:
    """Return the findings by path."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for path in sources():
        for text in texts(path):
            found[path] += findings(text)
    return {path: broken for path, broken in found.items() if broken}


def test_docstrings_and_comments_keep_to_the_rules() -> None:
    assert _findings() == {}


@pytest.mark.parametrize(
    ("words", "broken"),
    [
        ("Return the leader epoch that a record was written in.", []),
        ("What the engine asks of the parts around it.", ["What"]),
        ("The same for a broker.", ["The same"]),
        ("Answer who asks, and say that no heartbeat more is sent.", ["who asks", "no heartbeat more"]),
        ("Add no record more than the limit.", []),
        ("Somewhat larger.", []),
    ],
)
def test_the_rules_find_openings_and_words(words: str, broken: list[str]) -> None:
    assert [one.words for one in findings(Text("a.py", 1, words, is_docstring=True))] == broken


def test_comments_may_open_with_any_word() -> None:
    assert list(findings(Text("a.py", 1, "What a peer sends is bounded.", is_docstring=False))) == []


if __name__ == "__main__":
    for path, broken in _findings().items():
        if path.startswith(tuple(sys.argv[1:]) or ""):
            print(*(f"{path}:{one.line}: {one.words}" for one in broken), sep="\n")
