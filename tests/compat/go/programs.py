"""The Go programs of the tests, built by the installed `go` with the modules in go.mod and go.sum.

Modules come from Go's own cache, or from its module proxy. Programs are kept in `.cache/go` of the checkout.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from scripts.setup import QUICK_GO

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "go"
BUILD_TIMEOUT_S = 300


@cache
def go_program(name: str) -> Path | str:
    """Return the program built from the folder `name`, or the reason why there is none."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return "go is not installed: install Go 1.26 or newer"
    program = CACHE / _fingerprint() / name
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(program.parent / "lock", "w") as lock:
        # One build at a time, since two at once would both compile the packages that they share.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return program if program.exists() else _build(go, name, program)


def _build(go: str, name: str, program: Path) -> Path | str:
    fresh = program.with_suffix(f".{os.getpid()}")
    command = [go, "build", "-buildvcs=false", "-o", str(fresh), f"./{name}"]
    try:
        built = subprocess.run(
            command,
            cwd=HERE,
            env={**os.environ, **QUICK_GO},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"go did not build {name} within {BUILD_TIMEOUT_S} s"
    if built.returncode:
        return f"go does not build {name}: {built.stderr.strip()[-300:]}"
    fresh.replace(program)
    return program


def _fingerprint() -> str:
    sources = sorted(path for path in HERE.rglob("*") if path.suffix in (".go", ".mod", ".sum"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
