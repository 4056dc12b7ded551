"""The files of the console: their headers, and code that none of them may contain."""

import re
from pathlib import PurePosixPath

import pytest

from ottla.node.console.page_files import CONTENT_TYPES, INDEX, PageFile, is_unchanged, page_files

SCRIPTS = [one for one in page_files().values() if one.path.endswith(".js")]
# Calls that turn a text into markup or code.
PARSES = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML"
    r"|srcdoc|\beval\b|new Function|javascript:|importScripts|setTimeout\(\s*[\"'`]"
)
IMPORT = re.compile(r'\bfrom "(\.[^"]+)"')


def texts() -> list[tuple[str, str]]:
    return [(one.path, one.content.decode()) for one in page_files().values()]


def test_every_file_has_a_type_and_a_tag_of_its_own() -> None:
    files = page_files()

    assert {INDEX, "console.css", "icon.svg", "js/main.js"} <= files.keys()
    for one in files.values():
        assert one.content_type == CONTENT_TYPES[PurePosixPath(one.path).suffix]
        assert re.fullmatch(r'"[0-9a-f]{32}"', one.etag)
    assert len({one.etag for one in files.values()}) == len(files)


@pytest.mark.parametrize(
    ("header", "unchanged"),
    [
        (None, False),
        ('"a"', True),
        ('W/"a"', True),
        ('"b", "a"', True),
        ("*", True),
        ('"b"', False),
        ("a", False),
    ],
)
def test_a_browser_that_has_the_file_gets_304(header: str | None, unchanged: bool) -> None:
    """RFC 9110, 13.1.2."""
    assert is_unchanged(header, '"a"') is unchanged


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.path)
def test_no_script_parses_text_as_markup_or_code(script: PageFile) -> None:
    assert PARSES.findall(script.content.decode()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.path)
def test_every_import_is_a_file_of_the_console(script: PageFile) -> None:
    folder = PurePosixPath(script.path).parent
    for name in IMPORT.findall(script.content.decode()):
        parts: list[str] = []
        for part in (folder / name).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]

        assert "/".join(parts) in page_files(), f"{script.path} imports {name}"


def test_every_script_is_used() -> None:
    whole = "".join(text for _, text in texts())

    for script in SCRIPTS:
        assert f"/{PurePosixPath(script.path).name}" in whole, f"no file imports {script.path}"


def test_nothing_comes_from_elsewhere() -> None:
    for path, text in texts():
        addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\"' )]*", text))

        assert addresses <= {"http://www.w3.org/2000/svg"}, path


def test_the_page_has_no_script_and_no_style_in_it() -> None:
    index = page_files()[INDEX].content.decode()

    assert re.findall(r"<script(?![^>]* src=)", index) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", index) == []


def test_a_script_begins_with_what_it_is_and_is_short() -> None:
    for script in SCRIPTS:
        lines = script.content.decode().splitlines()

        assert lines[0].startswith("// ") and len(lines) <= 200, script.path
