"""Docstrings and comments are plain English: sentences that say what a thing does, in the field's own words.

    python -m tests.tidy.test_english [PATH ...]
prints each place that breaks a rule below these paths.
"""

import sys
from collections import defaultdict
from functools import cache

import pytest

from tests.english import Finding, Text, findings, sources, texts

# Parts of the tree that have not been read again yet: the list only shrinks.
UNREAD = (
    "node/broker.py",
    "node/clock.py",
    "node/doctor/",
    "node/metadata/",
    "node/metrics/",
    "node/node_facts.py",
    "node/node_state.py",
    "node/node_view.py",
    "node/services.py",
    "node/settings/",
    "node/start/",
    "scripts/",
    "tests/chaos/",
    "tests/compat/",
    "tests/conftest.py",
    "tests/cpu_time.py",
    "tests/fuzz/",
    "tests/k8s/",
    "tests/node_fork.py",
    "tests/pages.py",
    "tests/pure_walk.py",
    "tests/share_watch.py",
    "tests/simulation/",
    "tests/thorough.py",
    "tests/tidy/",
    "tests/traced_memory.py",
    "tests/unit/node/",
    "tests/unit/node/authorization/",
    "tests/unit/node/counters/",
    "tests/unit/node/doctor/",
    "tests/unit/node/metadata/",
    "tests/unit/node/metrics/",
    "tests/unit/node/quota/",
    "tests/unit/node/settings/",
    "tests/unit/node/work/",
    "tests/unit/scripts/",
)


@cache
def _findings() -> dict[str, list[Finding]]:
    """Return what breaks the rules, by path."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for path in sources():
        for text in texts(path):
            found[path] += findings(text)
    return {path: broken for path, broken in found.items() if broken}


def test_docstrings_and_comments_keep_to_the_rules() -> None:
    assert {path: broken for path, broken in _findings().items() if not path.startswith(UNREAD)} == {}


@pytest.mark.parametrize("part", UNREAD)
def test_a_part_that_keeps_to_the_rules_is_off_the_list(part: str) -> None:
    assert any(path.startswith(part) for path in _findings())


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
