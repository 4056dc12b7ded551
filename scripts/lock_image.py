"""What `scripts/lock-image` does: resolve what a node needs, download each file, write down its hash.

pip takes a file of requirements with hashes only as a whole, so what is needed indirectly stands there, too.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cli", "compression")  # of the image of a node
PYTHONS = ("3.11", "3.12", "3.13")
PROCESSORS = ("x86_64", "aarch64")
# There are no wheels of these: they are built, without a compiler.
SOURCES = ("pysyncobj",)
GLIBC_MINORS = range(17, 37)  # up to that of Debian 12
HEAD = """\
# What the image of a node is made of, each file by its hash, written by scripts/lock-image from pyproject
# with its extras {extras}; for Python {pythons} on Linux, {processors}.
"""
BUILD_HEAD = """\
# What builds the wheel of Ottla, by its hash. Written by scripts/lock-image.
"""


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = list(project["project"]["dependencies"])
    for extra in EXTRAS:
        wanted += project["project"]["optional-dependencies"][extra]
    head = HEAD.format(
        extras=" and ".join(EXTRAS), pythons=", ".join(PYTHONS), processors=" and ".join(PROCESSORS)
    )
    rules = "--only-binary :all:\n" + "".join(f"--no-binary {name}\n" for name in SOURCES)
    (ROOT / "k8s" / "requirements.txt").write_text(head + rules + locked(wanted))
    build = project["build-system"]["requires"]
    (ROOT / "k8s" / "build-requirements.txt").write_text(BUILD_HEAD + locked(build))


def locked(wanted: Sequence[str]) -> str:
    """Lines for a file of requirements: all that these need, with the hashes of the files that may be had."""
    pins: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}

    def note(folder: Path) -> None:
        for file in sorted(folder.iterdir()):
            name, version = identity(file.name)
            pins[name] = version
            hashes.setdefault(name, set()).add(hashlib.sha256(file.read_bytes()).hexdigest())

    sources = [one for one in wanted if re.split("[^a-z0-9-]", one.lower())[0] in SOURCES]
    wanted = [one for one in wanted if one not in sources]
    for python in PYTHONS:
        for processor in PROCESSORS:
            with tempfile.TemporaryDirectory() as folder:
                # The first finds the versions; the others take the same.
                chosen = [f"{name}=={version}" for name, version in pins.items()] or wanted
                download(chosen, python, processor, Path(folder), with_needs=not pins)
                note(Path(folder))
    if sources:
        with tempfile.TemporaryDirectory() as folder:
            pip_download("--dest", folder, "--no-deps", "--no-binary", ":all:", *sources)
            note(Path(folder))
    return "".join(f"{name}=={pins[name]} {options(hashes[name])}\n" for name in sorted(pins))


def download(wanted: Sequence[str], python: str, processor: str, folder: Path, *, with_needs: bool) -> None:
    platforms = [
        f"manylinux2014_{processor}",
        *(f"manylinux_2_{minor}_{processor}" for minor in GLIBC_MINORS),
    ]
    words = ["--dest", str(folder), "--only-binary", ":all:", "--python-version", python]
    words += [word for platform in platforms for word in ("--platform", platform)]
    pip_download(*words, *([] if with_needs else ["--no-deps"]), *wanted)


def pip_download(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *words], check=True)


def identity(file_name: str) -> tuple[str, str]:
    """Name and version of a wheel or a source archive."""
    name, version, *_ = file_name.removesuffix(".tar.gz").split("-")
    return re.sub(r"[-_.]+", "-", name).lower(), version


def options(found: Iterable[str]) -> str:
    return " ".join(f"\\\n    --hash=sha256:{one}" for one in sorted(found))


if __name__ == "__main__":
    main()
