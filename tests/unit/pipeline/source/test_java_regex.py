"""ottla.pipeline.source.java_regex: patterns in Java's syntax find in names what they find in Java."""

import re

import pytest

from ottla.pipeline.source.java_regex import PatternError, translated

NAMES = ("orders", "Orders", "orders.v1", "orders-v2", "x", "abc", "a1", "a12", "aa", "a_b", "9", "a]")

# A pattern, and the match that java.util.regex finds.
FOUND = [
    (r"^orders.*", "orders orders.v1 orders-v2"),
    (r"^[a-z&&[^x]]+$", "orders abc aa"),
    (r"^[a-z&&[def[rsod]]]+$", "orders"),
    (r"^[a-z&&[^m-p]&&[^x]]+$", "abc aa"),
    (r"^[^a-z&&[^O]]", "Orders 9"),
    (r"^\p{Alpha}+$", "orders Orders x abc aa"),
    (r"^\p{javaUpperCase}", "Orders"),
    (r"^\p{IsUppercase}|^\p{Nd}$", "Orders 9"),
    (r"^\P{L}", "9"),
    (r"^\Qorders.v\E\d$", "orders.v1"),
    (r"\Q.\E", "orders.v1"),
    (r"^(?i)ORDERS$", "orders Orders"),
    (r"^(?i:o)rders$|^A", "orders Orders"),
    (r"^a(?i)B|X$", "x abc"),
    (r"^(a)\12?$", "aa"),  # group 1 and perhaps a 2: there is no group 12
    (r"^(?<first>a)\k<first>$", "aa"),
    (r"^a++$", "aa"),
    (r"^\x61\u0031\062$", "a12"),
    (r"^(?x) a  # the first letter", "abc a1 a12 aa a_b a]"),
    (r"^a[]b]", "abc a]"),
    (r"^a[1&]$", "a1"),
    (r"[\w&&[^\p{Lower}]]", "Orders orders.v1 orders-v2 a1 a12 a_b 9"),
    (r"^\h|\R|\p{Lt}", ""),
    (r"\1|^9", "9"),
]


@pytest.mark.parametrize(("pattern", "found"), FOUND, ids=[pattern for pattern, _ in FOUND])
def test_a_pattern_of_java_finds_the_same_names(pattern: str, found: str) -> None:
    compiled = re.compile(translated(pattern))

    names = [name for name in NAMES if compiled.search(name)]

    assert names == found.split()


REFUSED = [
    ("(", "there is a ( without a )"),
    (")", "there is a ) without a ("),
    ("[a", "it ends where ] is expected"),
    ("*a", "there is nothing before * to repeat"),
    ("a{", "{ does not begin a repetition here"),
    ("a{2,1}", "{2,1} is not a range"),
    ("a**", "a quantifier follows another quantifier"),
    ("[z-a]", "z-a is not a range"),
    ("[a&&]", "there is nothing after &&"),
    ("[a&&&]", "&& is followed by &"),
    (r"\G", r"\G is not supported by Python"),
    (r"\p{IsGreek}", r"\p{IsGreek} is not supported"),
    (r"\p{Alpha", r"\p has no closing brace"),
    (r"\1(a)", r"\1 comes before group 1"),
    (r"\k<n>", r"there is no group n before \k<n>"),
    (r"(?y)", "(?y does not begin a known kind of group"),
    (r"(?<=a+)b", "it cannot be translated for Python: look-behind"),
    ("(" * 200, "more than 100 groups"),
    ("[" * 200, "more than 100 classes"),
    ("a" * 20_000, "longer than 10000 characters"),
]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED, ids=[pattern[:12] for pattern, _ in REFUSED])
def test_an_invalid_pattern_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError) as refused:
        translated(pattern)

    assert reason in str(refused.value)
