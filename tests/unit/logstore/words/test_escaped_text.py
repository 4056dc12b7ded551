"""Control characters in text are replaced by escapes."""

import pytest

from ottla.logstore.words.escaped_text import escape_controls


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("orders-7 Grüße 注文　一 👨‍👩‍👧", "orders-7 Grüße 注文　一 👨‍👩‍👧"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x7f\x85\x9b", r"\x7f\x85\x9b"),
        ("\u2028\u202e\u2066", r"\u2028\u202e\u2066"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped_and_no_others(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped


def test_lines_and_tabs_may_be_kept() -> None:
    assert escape_controls("a\n\tb\r\x1b", keeps_lines=True) == "a\n\tb\\r\\x1b"
