"""The requests of the differential test: per API right ones, odd ones and hostile ones, for all versions.

They run in the order of the imports against both servers, so what one changes the next finds changed in both.
"""

# isort: off
# ruff: noqa: F401
from tests.compat.differential.cases import CASES
from tests.compat.differential import metadata_cases
from tests.compat.differential import produce_cases
from tests.compat.differential import fetch_cases
from tests.compat.differential import topic_cases
from tests.compat.differential import group_cases
# isort: on

__all__ = ["ALLOWED", "CASES"]

# Pattern over "api case path" -> why the two may differ there.
ALLOWED: dict[str, str] = {
    r"describe_configs .*configs\[(advertised\.)?listeners\]": "its own address",
    r"describe_configs .*configs\[(log\.dirs?|metadata\.log\.dir)\]": "its own place",
    r"describe_configs .*configs\[controller\.quorum\.(voters|bootstrap\.servers)\]": "its own quorum",
}
