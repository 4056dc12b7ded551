"""The docstring of `ottla` names the public modules, and the documents import only from these."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.tidy.test_layers import ROOT

PUBLIC_PACKAGE = ROOT / "src" / "ottla"
# Modules of the public package that pytest and Python find by themselves.
FOUND_BY_OTHERS = {"__init__", "__main__", "pytest_plugin"}
PUBLIC = sorted(path.stem for path in PUBLIC_PACKAGE.glob("*.py") if path.stem not in FOUND_BY_OTHERS)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def test_the_docstring_of_ottla_names_each_public_module() -> None:
    text = ast.get_docstring(ast.parse((PUBLIC_PACKAGE / "__init__.py").read_text())) or ""

    assert sorted(re.findall(r"^ottla\.(\w+)  +\S", text, flags=re.M)) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_exports_exactly_its_documented_names(name: str) -> None:
    module = importlib.import_module(f"ottla.{name}")
    imported = {
        alias.asname or alias.name
        for entry in ast.walk(ast.parse((PUBLIC_PACKAGE / f"{name}.py").read_text()))
        if isinstance(entry, ast.ImportFrom) and entry.module != "ottla.pipeline.spark_needed"
        for alias in entry.names
    }

    assert set(module.__all__) == imported


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_documents_import_public_modules_only(page: Path) -> None:
    named = re.findall(r"\b(?:from|import) (ottla\.[\w.]+)", page.read_text())

    assert {one.split(".", 1)[1] for one in named} <= set(PUBLIC)


def test_the_version_is_that_of_the_installation() -> None:
    import ottla

    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", ottla.__version__)
    with pytest.raises(AttributeError):
        _ = ottla.no_such_name
