"""The hooks of mkdocs: they add the generated pages and the pages outside of docs, and rewrite links."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "src"), str(ROOT)]

# ruff: noqa: E402
from documentation.benchmarks_page import SECTIONS, benchmarks_page
from documentation.commands_page import commands_page
from documentation.design_numbers import numbers_as_links
from documentation.metrics_page import metrics_page
from documentation.rest_page import rest_page
from documentation.scale_page import scale_page
from documentation.settings_page import settings_page
from documentation.site_files import GENERATED, MOUNTED, site_links, source_of

MAKERS: Final[dict[str, Callable[[], str]]] = {
    "reference/settings.md": settings_page,
    "reference/commands.md": commands_page,
    "reference/metrics.md": metrics_page,
    "reference/rest.md": rest_page,
    "benchmarks.md": lambda: benchmarks_page({name: _figures(f"benchmarks{name}") for name in SECTIONS}),
    "scale.md": lambda: scale_page(_figures("scale")),
}


def _figures(name: str) -> dict[str, Any]:
    """Return the figures that `scripts/bench --json` wrote."""
    document: dict[str, Any] = json.loads((ROOT / f"docs/data/{name}.json").read_text())
    return document


_made: dict[str, str] = {}  # `mkdocs serve` builds again after each change of a page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie under docs."""
    for path in GENERATED:
        if path not in _made:
            _made[path] = MAKERS[path]()
        files.append(File.generated(config, path, content=_made[path]))
    for source, path in MOUNTED.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page for the site."""
    pages = {file.src_uri for file in files}
    source = source_of(page.file.src_uri)
    return site_links(
        numbers_as_links(markdown, source, lambda path: (ROOT / path).read_text()), source, pages
    )
