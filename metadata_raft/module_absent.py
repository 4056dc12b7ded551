"""Hides an optional module, so that libraries do not import it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def module_absent(name: str) -> Iterator[None]:
    """Make imports of this module fail with ImportError, unless it is already imported."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = cast(ModuleType, None)  # the import system's mark of a module that cannot be imported
    try:
        yield
    finally:
        del sys.modules[name]
