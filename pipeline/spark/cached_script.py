"""Small programs that Spark starts in place of another one, and that start it with other arguments.

They are kept in the user's cache, each under a name made from its text, and are written atomically.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_of(environment: Mapping[str, str]) -> Path:
    """Return our folder in the user's cache; XDG_CACHE_HOME may move it."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"


def cached_script(cache: Path, text: str, *, prefix: str, program: str) -> Path:
    """Return the program at `cache/PREFIX-HASH/PROGRAM`, written if needed; OSError if that fails."""
    path = cache / f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:16]}" / program
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return path
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
    Path(name).replace(path)
    return path
