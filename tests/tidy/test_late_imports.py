"""Libraries and modules that are loaded late are not imported before they are needed.

A node loads libraries that only some settings need when they are set, which saves memory on most nodes. The
command line starts sooner without modules that most commands do not need.
"""

import subprocess
import sys

import pytest

from tests.tidy.test_circles import LOADED_LATE

# The MB of memory of each, with its own imports.
LATE = {
    "aiohttp": 14,  # the REST API, in its thread
    "cryptography": 8,  # certificates
    "jwt": 1,  # OAUTHBEARER
    "re2": 5,  # subscriptions by a regular expression
    "yaml": 1,
}


def loaded_by(*modules: str) -> set[str]:
    """Return the modules that a new process has loaded after importing these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(ended.stdout.split())


def test_a_node_without_the_settings_that_need_a_library_does_not_load_it() -> None:
    loaded = loaded_by("ottla.node.broker", "ottla.node.process.run_node")

    assert not LATE.keys() & loaded


@pytest.mark.parametrize("module", LOADED_LATE)
def test_imports_for_types_only_are_not_loaded(module: str) -> None:
    loaded = loaded_by(module)

    assert module in loaded
    assert not LOADED_LATE[module] & loaded
