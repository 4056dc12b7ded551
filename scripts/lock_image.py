"""Writes the lock files and the bills of materials of the two images (`scripts/lock-image`).

It resolves the packages of an image, downloads each of their files, and writes its hash.
pip needs the hashes of all packages of a requirements file, so indirect dependencies are listed too.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SPARK_EXTRAS = ("spark",)
SPARK_PYTHONS = ("3.12",)  # of k8s/spark.Dockerfile
PROCESSORS = ("x86_64", "aarch64")
# These have no wheels; they are built, which needs no compiler.
SOURCES = ("pyspark", "pysyncobj")
IMAGES = ("Dockerfile", "spark.Dockerfile")
GLIBC_MINORS = range(17, 37)  # up to glibc 2.36 of Debian 12
HEAD = """\
# The packages of {image}, with the hash of each file; written by scripts/lock-image from pyproject{extras};
# for Python {pythons} on Linux, {processors}.
"""
BUILD_HEAD = """\
# The packages that build the wheel of Ottla, with their hashes. Written by scripts/lock-image.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/lock-image")
    parser.add_argument("--base", metavar="NAME@sha256:DIGEST", help="name this base in both Dockerfiles")
    base = parser.parse_args().base
    if base is not None:
        for image in IMAGES:
            name_base(ROOT / "k8s" / image, base)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    write_lock(project, "requirements.txt", "the image of a node", (), PYTHONS)
    write_lock(project, "spark-requirements.txt", "the image of Spark's jobs", SPARK_EXTRAS, SPARK_PYTHONS)
    build = project["build-system"]["requires"]
    (ROOT / "k8s" / "build-requirements.txt").write_text(BUILD_HEAD + locked(build, PYTHONS))
    with tempfile.TemporaryDirectory() as folder:
        pip("install", "--target", folder, "cyclonedx-bom")
        write_bill(folder, "requirements.txt", "sbom.cdx.json")
        write_bill(folder, "spark-requirements.txt", "spark-sbom.cdx.json")


def name_base(dockerfile: Path, base: str) -> None:
    """Write the name and digest of the base image into a Dockerfile."""
    if not re.fullmatch(r"[a-z0-9./_-]+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}", base):
        raise SystemExit(f"lock-image: {base} is not NAME[:TAG]@sha256:DIGEST")
    text = re.sub(r"^ARG PYTHON=.*$", f"ARG PYTHON={base}", dockerfile.read_text(), flags=re.M)
    dockerfile.write_text(text)


def write_lock(
    project: dict[str, Any], name: str, image: str, extras: Sequence[str], pythons: Sequence[str]
) -> None:
    """Write a requirements file in k8s/ for Ottla with these extras."""
    own = project["project"]
    wanted = list(own["dependencies"])
    for extra in extras:
        wanted += own["optional-dependencies"][extra]
    head = HEAD.format(
        image=image,
        extras=f" with its extra {' and '.join(extras)}" if extras else "",
        pythons=", ".join(pythons),
        processors=" and ".join(PROCESSORS),
    )
    lines = locked(wanted, pythons)
    sources = [one for one in SOURCES if f"\n{one}==" in f"\n{lines}"]
    rules = "--only-binary :all:\n" + "".join(f"--no-binary {one}\n" for one in sources)
    (ROOT / "k8s" / name).write_text(head + rules + lines)


def write_bill(tools: str, requirements: str, name: str) -> None:
    """Write a bill of materials of one lock file, with CycloneDX's own library."""
    path = ROOT / "k8s" / name
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(ROOT / "k8s" / requirements)]
    subprocess.run(
        [*command, "--output-reproducible", "--of", "JSON", "-o", str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": tools},
    )
    bill = json.loads(path.read_text())
    for tool in bill["metadata"]["tools"]["components"]:
        del tool["externalReferences"]  # download pages
    for component in bill["components"]:
        del component["description"]  # the line of the lock file
        for one in component["externalReferences"]:
            one["url"] = component["purl"]  # instead of the URL of an index, as mirrors have equal files
    path.write_text(json.dumps(bill, indent=1) + "\n")


def locked(wanted: Sequence[str], pythons: Sequence[str]) -> str:
    """Return requirement lines of `wanted` and all dependencies, with the hashes of all available files."""
    pins: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}

    def note(folder: Path) -> None:
        for file in sorted(folder.iterdir()):
            name, version = identity(file.name)
            pins[name] = version
            hashes.setdefault(name, set()).add(hashlib.sha256(file.read_bytes()).hexdigest())

    sources = [one for one in wanted if re.split("[^a-z0-9-]", one.lower())[0] in SOURCES]
    wanted = [one for one in wanted if one not in sources]
    for python in pythons:
        for processor in PROCESSORS:
            with tempfile.TemporaryDirectory() as folder:
                # The first download resolves the versions; the others use the same.
                chosen = [f"{name}=={version}" for name, version in pins.items()] or wanted
                download(chosen, python, processor, Path(folder), with_dependencies=not pins)
                note(Path(folder))
    if sources:
        with tempfile.TemporaryDirectory() as folder:
            pip_download("--dest", folder, "--no-deps", "--no-binary", ":all:", *sources)
            note(Path(folder))
    return "".join(f"{name}=={pins[name]} {options(hashes[name])}\n" for name in sorted(pins))


def download(
    wanted: Sequence[str], python: str, processor: str, folder: Path, *, with_dependencies: bool
) -> None:
    platforms = [
        f"manylinux2014_{processor}",
        *(f"manylinux_2_{minor}_{processor}" for minor in GLIBC_MINORS),
    ]
    words = ["--dest", str(folder), "--only-binary", ":all:", "--python-version", python]
    words += [word for platform in platforms for word in ("--platform", platform)]
    pip_download(*words, *([] if with_dependencies else ["--no-deps"]), *wanted)


def pip_download(*words: str) -> None:
    pip("download", *words)


def pip(command: str, *words: str) -> None:
    base = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*base, *words], check=True)


def identity(file_name: str) -> tuple[str, str]:
    """Return name and version of a wheel or a source archive."""
    name, version, *_ = file_name.removesuffix(".tar.gz").split("-")
    return re.sub(r"[-_.]+", "-", name).lower(), version


def options(found: Iterable[str]) -> str:
    return " ".join(f"\\\n    --hash=sha256:{one}" for one in sorted(found))


if __name__ == "__main__":
    main()
