"""The design pages: each number is defined once, under its subject, and cited numbers are defined."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import ROOT

sys.path.append(str(ROOT / "scripts"))

from documentation.design_numbers import CITATION, DECISION, DESIGNS, NAMED_DESIGN, numbers_as_links

PAGES = {name: ROOT / name / "DESIGN.md" for name in DESIGNS}
MAX_BYTES = 28_000  # read in half an hour; shorten the text beyond that
ONE_SERIES = ("node", "node/coordinators", "node/rest_api")
SUPERSEDED = "## Superseded decisions"
ROW = re.compile(r"^\| ([DP]\d+)\b[^|]*\|(.*)\|$", re.M)
NOT_OURS = ("__pycache__", "site", "build", "dist")
CITING = (".py", ".c", ".md", ".toml", ".yaml", ".yml", ".js", ".css")


def decisions(page: str) -> list[str]:
    return DECISION.findall(PAGES[page].read_text())


def superseded(page: str) -> dict[str, str]:
    """Return the superseded numbers, with their text in the table."""
    return dict(ROW.findall(PAGES[page].read_text().partition(SUPERSEDED)[2]))


def headings(text: str) -> list[str]:
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.findall(r"^#+ (.*)$", without_code, flags=re.M)


def citations(path: str, text: str) -> list[tuple[str, str]]:
    """Return each number that a file cites, with the page that it belongs to.

    The page is named before the number, or earlier in the file, or is that of the file's own package.
    """
    found = []
    for match in CITATION.finditer(text):
        owner, number = match[1], match[2]
        if owner is None:
            before = NAMED_DESIGN.findall(text[: match.start()])
            packages = [name for name in PAGES if path.startswith(f"{name}/")]
            owner = max(packages, key=len) if packages else before[-1] if before else ""
        if number[0] == "P" and owner != "pipeline":
            continue  # a percentile, or a name in code
        found.append((owner, number))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_number_is_defined_once_or_superseded_by_a_defined_one(page: str) -> None:
    defined, gone = decisions(page), superseded(page)

    assert [number for number, times in Counter(defined).items() if times > 1] == []
    assert sorted(set(defined) & set(gone)) == []
    for number, by in gone.items():
        replaced_by = citations(f"{page}/DESIGN.md", by)
        assert replaced_by or "no decision" in by, f"{number} does not name the decision that superseded it"
        assert all(other in decisions(owner) for owner, other in replaced_by), number


def test_pages_of_one_series_have_no_number_twice() -> None:
    series = [number for page in ONE_SERIES for number in decisions(page)]

    assert sorted(set(series)) == sorted(series)


def files() -> Iterator[Path]:
    """Yield the files that may cite a decision."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name[0] != "." and name not in NOT_OURS]
        yield from (
            Path(folder, name) for name in names if name.endswith(CITING) and name != Path(__file__).name
        )


def test_cited_decisions_exist() -> None:
    known = {page: set(decisions(page)) for page in PAGES}

    cited = [
        (path, owner, number)
        for path in files()
        if path != Path(__file__)
        for owner, number in citations(str(path.relative_to(ROOT)), path.read_text().partition(SUPERSEDED)[0])
    ]
    assert [one for one in cited if one[2] not in known.get(one[1], ())] == []
    assert len(cited) > 30


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_subjects_that_links_can_name(page: str) -> None:
    text = PAGES[page].read_text()
    titles = headings(text)

    assert len(titles) == len(set(titles)) >= 5
    assert not {"Decisions", "Figures"} & set(titles), "a decision stands under its subject"
    assert len(text.encode()) <= MAX_BYTES


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_design_names_exist(page: str) -> None:
    text = PAGES[page].read_text()
    named = re.findall(r"`([\w./-]+(?:\.(?:py|c|md|java|yaml)|/))`", text)

    assert [
        name for name in named if not any((base / name).exists() for base in (PAGES[page].parent, ROOT))
    ] == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("node/net/listener.py", "# as D47 says", [("node", "D47")]),
        ("node/wire/codec.py", "# as D4 says", [("node/wire", "D4")]),
        ("node/log_care/log_scrub.py", "# as logstore D7 says", [("logstore", "D7")]),
        (
            "tests/unit/test_a.py",
            '"""groupcoord/DESIGN.md, D18."""\n# D20',
            [("groupcoord", "D18"), ("groupcoord", "D20")],
        ),
        ("tests/unit/test_a.py", "# D20", [("", "D20")]),
        ("tests/unit/test_a.py", "P0, P99", []),
        ("pipeline/spark/a.py", "# see P35", [("pipeline", "P35")]),
    ],
)
def test_a_number_belongs_to_the_page_that_is_named_or_to_its_package(
    path: str, text: str, expected: list[tuple[str, str]]
) -> None:
    assert citations(path, text) == expected


def test_numbers_are_links_on_the_site() -> None:
    texts = {"logstore/DESIGN.md": "**D7** A hole."}
    text = "## D1\n**D1** A, as D2 and logstore D7 say; `D1`, D9.\n```\nD1\n```\n**D2** B."

    linked = numbers_as_links(text, "node/DESIGN.md", texts.__getitem__)

    assert linked.splitlines() == [
        "## D1",
        "**D1**{ #D1 } A, as [D2](#D2) and [logstore D7](../logstore/DESIGN.md#D7) say; `D1`, D9.",
        "```",
        "D1",
        "```",
        "**D2**{ #D2 } B.",
    ]
    assert numbers_as_links(text, "docs/topics.md", texts.__getitem__) == text
