"""Functions are found by reading modules, which are never run."""

import sys
from pathlib import Path

import pytest

from ottla.pipeline.jobs.python_functions import FunctionError, check_function, parse_function


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise AssertionError('run')\n")
    (tmp_path / "package" / "clean.py").write_text(
        "raise AssertionError('run')\n"
        "from x import imported\n"
        "from y import z as renamed\n"
        "bound = make()\n"
        "if True:\n    def conditional(): pass\n"
        "def plain():\n    def inner(): pass\n"
        "class Kind:\n    def method(self): pass\n"
    )
    (tmp_path / "star.py").write_text("from package.clean import *\n")
    (tmp_path / "dynamic.py").write_text("def __getattr__(name): pass\n")
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "bare").mkdir()
    for name in ("types", "yaml", "pipeline"):
        (tmp_path / f"{name}.py").write_text("def inner(): pass\n")
    return tmp_path


@pytest.mark.parametrize("function", ["imported", "renamed", "bound", "conditional", "plain", "Kind"])
def test_a_name_that_a_module_binds_exists(folder: Path, function: str) -> None:
    check_function("package.clean", function, [str(folder)])


@pytest.mark.parametrize("module", ["star", "dynamic"])
def test_a_function_that_only_running_would_show_is_assumed(folder: Path, module: str) -> None:
    check_function(module, "anything", [str(folder)])


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("package.clean", "has no function inner"),
        ("package.dirty", "names the module package.dirty, which cannot be found"),
        ("nowhere.clean", "names the module nowhere, which cannot be found"),
        ("broken", "which is not valid Python: invalid syntax (line 2)"),
        ("bare", "is a folder, not a module"),
    ],
)
def test_a_missing_function_is_reported(folder: Path, module: str, reason: str) -> None:
    with pytest.raises(FunctionError) as error:
        check_function(module, "inner", [str(folder)])

    assert reason in str(error.value)


@pytest.mark.parametrize("module", ["types", "yaml"])
def test_a_module_with_the_name_of_one_that_the_run_loads_instead_is_refused(
    folder: Path, module: str
) -> None:
    with pytest.raises(FunctionError, match=f"names {module}, which is also the name of .*: rename yours"):
        check_function(module, "inner", [str(folder), *sys.path])


def test_a_module_may_have_the_name_of_one_of_our_folders(folder: Path) -> None:
    check_function("pipeline", "inner", [str(folder), *sys.path])


def test_a_function_of_an_installed_package_is_found() -> None:
    check_function("yaml", "safe_load", sys.path)


@pytest.mark.parametrize("text", ["f", "a.b", "a:", ":f", "a b:f", "a:f()", "../a:f", "a:b:c", "a..b:f"])
def test_a_function_is_written_as_module_and_name(text: str) -> None:
    with pytest.raises(FunctionError, match="module:function"):
        parse_function(text)
