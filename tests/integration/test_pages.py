"""The README and the pages of the documentation, each followed from an empty folder to its end.

Pages on Spark are in tests/pipeline/spark/test_pages.py, which has a session for all of them.
"""

from pathlib import Path

import pytest

from tests.pages import ROOT, blocks_of, missing_programs, pages, run_page, why_no_namespaces
from tests.pipeline.spark_pages import SPARK_PAGES

STORIES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if page.name not in SPARK_PAGES and any(block.is_run for block in blocks_of(page))
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", STORIES)
def test_a_reader_comes_to_the_end_of_a_page(name: str, tmp_path: Path) -> None:
    reason = why_no_namespaces()
    missing = missing_programs(ROOT / name)
    if reason is not None or missing:
        pytest.skip(reason or f"the page uses {', '.join(missing)}, which is not installed")

    done = run_page(ROOT / name, tmp_path)

    assert done.returncode == 0, done.stdout
