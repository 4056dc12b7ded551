"""Checks that a Python function of a job file exists, without running any of its module.

A user's module runs when the job starts and not when a file is checked, so its text is read: a function
exists if the module binds its name at the top level, or may bind it in a way that only running it shows.
"""

import ast
import re
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from typing import Final

_NAMED: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
MAX_MODULE_BYTES: Final = 4 * 1024 * 1024


class FunctionError(ValueError):
    """A function that does not exist or cannot be used; the message is the rest of a sentence."""


def parse_function(text: str) -> tuple[str, str]:
    """Split `module:function`; FunctionError."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise FunctionError("must have the form module:function, such as my_package.my_module:my_function")
    return match[1], match[2]


def check_function(module: str, function: str, folders: Sequence[str]) -> None:
    """Raise FunctionError unless the module is in one of the folders and has the function."""
    spec = _find(module, folders)
    _check_name(module.partition(".")[0], folders)
    origin = Path(spec.origin) if spec.origin and spec.has_location else None
    if origin is None:
        raise FunctionError(f"names {module}, which is a folder, not a module")
    if origin.name.endswith(tuple(EXTENSION_SUFFIXES)):
        return
    try:
        content = origin.read_bytes()
        if len(content) > MAX_MODULE_BYTES:
            raise FunctionError(f"names {module}, which is larger than {MAX_MODULE_BYTES} bytes")
        tree = ast.parse(content)
    except OSError as error:
        raise FunctionError(f"names {module}, which cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise FunctionError(
            f"names {module}, which is not valid Python: {error.msg} (line {error.lineno})"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise FunctionError(f"names {module}, which is not valid Python") from None
    if not _may_have(tree, function):
        raise FunctionError(f"names {module}, which has no function {function}")


def _find(module: str, folders: Sequence[str]) -> ModuleSpec:
    path: Sequence[str] | None = list(folders)
    parts = module.split(".")
    spec: ModuleSpec | None = None
    for count, _ in enumerate(parts, start=1):
        name = ".".join(parts[:count])
        # Only the place of each package is looked up; importlib.util.find_spec would run it.
        spec = PathFinder.find_spec(name, path) if path is not None else None
        if spec is None:
            raise FunctionError(
                f"names the module {name}, which cannot be found; the folder of the job file "
                "is searched first"
            )
        path = spec.submodule_search_locations
    assert spec is not None
    return spec


def _check_name(name: str, folders: Sequence[str]) -> None:
    """Raise FunctionError if a module beside the file has the name of one that the run loads instead."""
    installed = {sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = _find(name, folders).origin
    if own is not None and not any(Path(own).is_relative_to(folder) for folder in installed):
        other = PathFinder.find_spec(name, sorted(installed))
        if name in sys.stdlib_module_names or (other is not None and other.origin is not None):
            raise FunctionError(
                f"names {name}, which is also the name of a module of Python or of an installed package:"
                " rename yours"
            )


def _may_have(tree: ast.Module, function: str) -> bool:
    """Return True if a statement outside of functions and classes binds the name, or may bind it."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if name in (function, "__getattr__"):
                    return True
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                if any((one.asname or one.name) in (function, "*") for one in aliases):
                    return True
            case ast.Name(id=name, ctx=ast.Store()) if name == function:
                return True
            case _:
                pending.extend(ast.iter_child_nodes(node))
    return False
