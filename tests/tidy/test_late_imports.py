"""A node loads what only some settings need when these ask for it: memory that most nodes keep free."""

import subprocess
import sys

# MB of memory that each takes, with what it imports itself.
LATE = {
    "aiohttp": 14,  # the REST API, in its thread
    "cryptography": 8,  # certificates
    "jwt": 1,  # OAUTHBEARER
    "re2": 5,  # subscriptions by an expression
    "yaml": 1,
}


def test_a_node_without_the_settings_that_need_a_library_does_not_load_it() -> None:
    code = "import sys, ottla.node.broker, ottla.node.process.run_node; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert not LATE.keys() & set(loaded.split())
