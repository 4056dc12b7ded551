"""Lists of names and expressions: their meaning, alone and combined."""

import re

import pytest

from ottla.pipeline.mirror.name_patterns import NameFilter, read_patterns
from ottla.pipeline.words import OptionError


@pytest.mark.parametrize(
    ("included", "excluded", "name", "has"),
    [
        (".*", "", "orders", True),
        ("orders", "", "orders2", False),
        ("orders, payments-.*", "", "payments-eu", True),
        ("a|b", "", "b", True),
        ("a|b, c", "", "bc", False),
        (".*", "orders", "orders", False),
        (".*", "orders", "orders2", True),
        (".*", r".*[\-\.]internal, __.*", "x.internal", False),
        (".*", "a|b", "ab", True),
        ("", "", "orders", False),
    ],
)
def test_names_match_that_are_included_and_not_excluded(
    included: str, excluded: str, name: str, has: bool
) -> None:
    names = NameFilter(included=read_patterns("topics", included), excluded=read_patterns("x", excluded))

    assert names.has(name) is has
    assert (re.fullmatch(names.pattern(), name) is not None) is has


def test_expressions_of_topics_are_javas() -> None:
    names = NameFilter(included=read_patterns("topics", r"[a-z&&[^x]]+, \Qa.b\E", of_topics=True))

    assert [name for name in ("abc", "axc", "a.b", "a-b") if names.has(name)] == ["abc", "a.b"]


def test_more_can_be_excluded() -> None:
    names = NameFilter(included=("a.*",), excluded=("ab",)).without(["ac"])

    assert [name for name in ("aa", "ab", "ac") if names.has(name)] == ["aa"]


def test_an_invalid_expression_is_reported_with_its_option() -> None:
    with pytest.raises(OptionError, match=r"topics: '\(' is not a regular expression"):
        read_patterns("topics", "a,(")
