"""`scripts/same-code` distinguishes changes of docstrings and comments from changes of code."""

import runpy
from pathlib import Path

import pytest

code = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "same-code"))["code"]

BEFORE = '''
class Offset:
    """An offset."""

    def next(self):
        """The same, one further."""
        return self.value + 1  # no more
'''
WORDS = '''
class Offset:
    """The number of a record."""

    def next(self):
        return self.value + 1
'''


def test_docstrings_and_comments_are_not_code() -> None:
    assert code("offset.py", BEFORE) == code("offset.py", WORDS)


@pytest.mark.parametrize(("old", "new"), [("+ 1", "+ 2"), ("next", "following"), ("self.value", "'text'")])
def test_everything_else_is_code(old: str, new: str) -> None:
    assert code("offset.py", BEFORE) != code("offset.py", BEFORE.replace(old, new))


def test_a_class_with_only_a_docstring_is_the_same_after_a_change_of_it() -> None:
    assert code("a.py", 'class A:\n    """Old."""\n') == code("a.py", "class A:\n    ...\n")


def test_comments_of_c_are_not_code_but_its_strings_are() -> None:
    assert code("a.c", "int a; /* old\n words */ // more\n") == code("a.c", "int a;\n")
    assert code("a.c", 'char *a = "/* old */";') != code("a.c", 'char *a = "/* new */";')


def test_a_script_without_a_suffix_is_python_by_its_first_line() -> None:
    script = "#!/usr/bin/env python3\n"

    assert code("scripts/a", script + "a = 1  # old\n") == code("scripts/a", script + "a = 1\n")
    assert code("k8s/a.sh", "a=1 # old\n") != code("k8s/a.sh", "a=1\n")
