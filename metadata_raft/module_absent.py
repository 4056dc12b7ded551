"""Hides a module from those who would import it if it were there."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def module_absent(name: str) -> Iterator[None]:
    """Let imports of this module fail with ImportError, unless it is there already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = cast(ModuleType, None)  # as the import system marks what cannot be imported
    try:
        yield
    finally:
        del sys.modules[name]
