"""A plugin that hides the compiled walk, so that tests use the walk over records in Python.

`scripts/check` runs `python -m pytest -p tests.pure_walk PATHS` on the tests of modules that read records.
The plugin affects the process of the tests, not the nodes that they start.
"""

import sys
from typing import Any, Final

EXTENSION: Final = "ottla.logstore._record_walk"

assert "ottla.logstore.record_walk" not in sys.modules, "tests.pure_walk must be loaded before record_walk"
# `None` makes Python raise ImportError for the module.
modules: dict[str, Any] = sys.modules
modules[EXTENSION] = None
