"""The variables of Python programs that a benchmark runs beside itself."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


def program_environment() -> dict[str, str]:
    """Return this process's variables, with the paths of the scripts, of Ottla and of its tests."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'src'}:{ROOT}"}
