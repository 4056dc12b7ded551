"""The environment variables of Python programs that a benchmark starts."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def program_environment() -> dict[str, str]:
    """Return this process's variables, with PYTHONPATH set to the scripts, to Ottla and to its tests."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'src'}:{ROOT}"}
