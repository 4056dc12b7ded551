"""A plugin: tests see logstore as it is where no C compiler was, with the walk over records in Python.

`python -m pytest -p tests.pure_walk PATHS`, as `scripts/check` runs it over the tests of what opens records.
It holds for the process of the tests, not for nodes that they start.
"""

import sys
from typing import Any, Final

EXTENSION: Final = "ottla.logstore._record_walk"

assert "ottla.logstore.record_walk" not in sys.modules, (
    "tests.pure_walk must be loaded before what it changes"
)
# `None` here is how Python is told that a module cannot be imported.
modules: dict[str, Any] = sys.modules
modules[EXTENSION] = None
