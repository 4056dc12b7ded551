"""Whether a Python function that a job file names is there, found without running any of its module.

A module of the user's is run when the job starts and not when a file is checked, so its text is read: a
function is there when the module binds its name at the top, or may do so in a way that only running it tells.
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
    """A function that cannot be; the message is the rest of a sentence."""


def parse_function(text: str) -> tuple[str, str]:
    """`module:function` in its parts; FunctionError."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise FunctionError("must have the form module:function, such as my_package.my_module:my_function")
    return match[1], match[2]


def check_function(module: str, function: str, folders: Sequence[str]) -> None:
    """FunctionError unless the module is in one of the folders and has the function."""
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
        # Of each package only where it lies is asked; importlib.util.find_spec would run it.
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
    """Whether a statement outside of functions and classes binds the name, or one may that cannot be told."""
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
