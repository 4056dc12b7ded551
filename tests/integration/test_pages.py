"""The README and the pages of the documentation, each followed from an empty folder to its end.

The pages about Spark are in tests/pipeline/spark/test_pages.py, which has one Spark session for all.
"""

from pathlib import Path

import pytest

from tests.pages import ROOT, blocks_of, missing_line, missing_programs, pages, run_page, why_no_namespaces
from tests.pipeline.spark_pages import SPARK_PAGES

PAGES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if page.name not in SPARK_PAGES and any(block.is_run for block in blocks_of(page))
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PAGES)
def test_a_reader_can_follow_a_page_to_its_end(name: str, tmp_path: Path) -> None:
    reason = why_no_namespaces()
    missing = missing_programs(ROOT / name)
    if reason is not None or missing:
        pytest.skip(reason or f"the page uses {', '.join(missing)}, which is not installed")

    done = run_page(ROOT / name, tmp_path)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```sh\ntrue\nfalse\ntrue\n```\n", "page.md, line 1: exit code 1"),
        ("```sh\necho one\n```\n\n```text\ntwo\n```\n", "page.md, line 5: not printed: two"),
        ("<!-- exit code 3 -->\n```sh\nexit 4\n```\n", "page.md, line 2: exit code 4"),
        ("```python\nraise SystemExit(7)\n```\n", "page.md, line 1: exit code 7"),
        ("```sh\nfalse\nottla start\n```\n", "page.md, line 1: it is not READY"),
    ],
)
def test_a_page_at_which_a_reader_would_be_stuck_fails(tmp_path: Path, page: str, message: str) -> None:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(reason)
    (tmp_path / "page.md").write_text(page)

    done = run_page(tmp_path / "page.md", tmp_path)

    assert done.returncode == 1 and done.stdout.startswith(message), done.stdout


def test_a_page_runs_in_one_shell_with_the_files_that_it_saves(tmp_path: Path) -> None:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(reason)
    (tmp_path / "page.md").write_text(
        "```sh\nNAME=anna\nmkdir sub && cd sub\n```\n"
        '```text title="sub/greeting.txt"\nhello\n```\n'
        "```sh\ncat greeting.txt; echo $NAME\n```\n```text\nhello\n...\na...a\n```\n"
        "<!-- not run: of another machine -->\n```sh\nfalse\n```\n"
    )

    done = run_page(tmp_path / "page.md", tmp_path)

    assert done.returncode == 0, done.stdout


def test_output_is_compared_line_by_line_in_its_order() -> None:
    printed = "a  1\nb 2\nc 3\n"

    assert missing_line("a 1\n...\nc ...\n", printed) is None
    assert missing_line("c 3\na 1\n", printed) == "a 1"
    assert missing_line("a\n", printed) == "a"
