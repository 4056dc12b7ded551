"""The source archive and the wheel as a user gets them, and Ottla installed into an empty environment.

The environment has links to the requirements of the wheel, and to theirs, where the tests have them. So
nothing is downloaded, and an undeclared requirement is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.pages import ROOT
from tests.ports import free_ports

pytestmark = pytest.mark.slow
TIMEOUT_S = 120
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IGNORED = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
# Modules of Python that every program loads; a user has files of these names.
HIDING = ("json.py", "re.py", "types.py")
THEIR_CONFTEST = """
import pytest

from node import SIZE


@pytest.fixture
def size():
    return SIZE
"""
THEIR_TESTS = """
import sys

import pipeline
from logstore.shelf import WOOD


def test_their_own_modules_are_theirs(size):
    assert (size, pipeline.SIZE, WOOD) == (3, 4, "oak")


def test_ottla_has_loaded_nothing():
    loaded = [name for name in sys.modules if name.partition(".")[0] == "ottla"]
    assert loaded == ["ottla", "ottla.pytest_plugin"]


def test_ottla_is_imported_as_without_pytest():
    import ottla.testing

    assert type(ottla.testing.__loader__).__name__ == "SourceFileLoader"
"""
PLUGIN_ALONE = """
import sys
import pytest
before = set(sys.modules)
import ottla.pytest_plugin
print(sorted(set(sys.modules) - before))
"""


def run(command: Iterable[str | Path], folder: Path, given: str = "", **environment: str) -> str:
    """Run a command, which must succeed, and return its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", "PYTEST_ADDOPTS": "", **environment},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the checkout, since a build writes into its folder, and return the copy."""
    folder = tmp_path_factory.mktemp("sources") / "ottla"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(".git", *IGNORED))
    return folder


@pytest.fixture(scope="module")
def built(sources: Path) -> Path:
    """Build a source archive and a wheel from it, and return their folder."""
    folder = sources.parent / "built"
    output = run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder], sources)
    assert not re.search("deprecat", output, re.IGNORECASE), output
    return folder


@pytest.fixture(scope="module")
def environment(built: Path) -> Path:
    """Install the wheel into an environment, and return the folder of its programs."""
    folder = built.parent / "environment"
    run([sys.executable, "-m", "venv", "--without-pip", folder], built)
    python = folder / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        "--no-compile",
    ]
    [wheel] = built.glob("*.whl")
    run([*pip, wheel], built)
    [packages] = folder.glob("lib/python*/site-packages")
    installed = {path.name for path in packages.iterdir() if not path.name.startswith("_")}
    assert installed == {"ottla", "pyspark_ottla", f"ottla-{VERSION}.dist-info"}
    needs = folder / "needs"
    needs.mkdir()
    metadata = PathDistribution(packages / f"ottla-{VERSION}.dist-info")
    for name in required(metadata.requires or ()) | required(["pytest"]):
        for part in {path.parts[0] for path in distribution(name).files or ()}:
            if part not in ("..", "__pycache__") and not (needs / part).exists():
                (needs / part).symlink_to(distribution(name).locate_file(part))
    (packages / "needs.pth").write_text(f"{needs}\n")
    return folder / "bin"


def required(texts: Iterable[str]) -> set[str]:
    """Return the names of the distributions that these requirements need, without extras."""
    found: set[str] = set()
    pending = list(texts)
    while pending:
        one = Requirement(pending.pop())
        if one.name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found.add(one.name)
            pending += distribution(one.name).requires or ()
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a project whose folders and files are named as Ottla's and Python's modules."""
    for name, text in {
        "node/__init__.py": "SIZE = 3\n",
        "logstore/shelf.py": "WOOD = 'oak'\n",
        "pipeline.py": "SIZE = 4\n",
        "conftest.py": THEIR_CONFTEST,
        "test_theirs.py": THEIR_TESTS,
        "pytest.ini": "[pytest]\nfilterwarnings = error\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_source_archive_has_the_layout_of_the_repository(built: Path, sources: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        found = {name.partition("/")[2]: one for name, one in zip(opened.getnames(), opened, strict=True)}

    files = {name for name, one in found.items() if one.isfile() or one.issym()}
    own = {
        str(path.relative_to(sources))
        for path in sources.rglob("*")
        if (path.is_file() or path.is_symlink()) and path.relative_to(sources).parts[0] != "build"
    }
    assert files - own <= {"PKG-INFO", "setup.cfg"} and own <= files
    assert {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "docs/index.md", "tests/conftest.py"} <= files
    assert found["src/ottla/node"].linkname == "../../node" and "node/broker.py" in files
    assert not any(name.startswith("src/ottla/node/") for name in files)


def test_a_wheel_from_the_source_archive_equals_that_of_the_checkout(built: Path, sources: Path) -> None:
    folder = sources.parent / "direct"
    earlier = sources / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "ottla"
    earlier.mkdir(parents=True)
    (earlier / "gone.py").touch()
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder], sources)
    [direct], [indirect] = folder.glob("*.whl"), built.glob("*.whl")

    assert direct.name == indirect.name and "-cp311-abi3-" in direct.name
    assert members(direct) == members(indirect)
    assert {name.partition("/")[0] for name in members(direct)} == {
        "ottla",
        "pyspark_ottla",
        f"ottla-{VERSION}.dist-info",
    }
    assert {"ottla/py.typed", "ottla/logstore/_record_walk.abi3.so"} <= members(direct).keys()


def test_records_go_through_a_cluster_in_a_folder_with_files_named_as_modules_of_python(
    environment: Path, tmp_path: Path
) -> None:
    for name in HIDING:
        (tmp_path / name).write_text("raise AssertionError('a file of the user was imported')\n")
    ottla = environment / "ottla"
    base = free_ports(3)
    up = subprocess.Popen(
        [ottla, "cluster", "up", "--nodes", "1", "--base-port", str(base)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None and up.stdout.readline().startswith("READY ")
        server = {"OTTLA_BOOTSTRAP": f"127.0.0.1:{base}"}
        for codec in ("gzip", "lz4", "snappy", "zstd"):
            run(
                [ottla, "produce", "orders", "--create-topic", "--compression", codec],
                tmp_path,
                f"{codec}\n",
                **server,
            )
        consumed = run([ottla, "consume", "orders", "--until-end"], tmp_path, **server)
        compacted = ["--config", "cleanup.policy=compact", "--config", "compression.type=lz4"]
        run([ottla, "topic", "create", "stock", *compacted], tmp_path, **server)
        keyed = ["--key-separator", ":", "--compression", "lz4"]
        run([ottla, "produce", "stock", *keyed], tmp_path, "apples:3\npears:5\n", **server)
        stock = run([ottla, "consume", "stock", "--until-end", "--keys"], tmp_path, **server)
    finally:
        up.terminate()
        up.communicate(timeout=TIMEOUT_S)
    assert sorted(consumed.split()) == ["gzip", "lz4", "snappy", "zstd"]
    assert sorted(stock.splitlines()) == ["apples\t3", "pears\t5"]
    assert run([ottla, "--version"], tmp_path) == f"ottla {VERSION}\n"


def test_a_project_with_folders_named_as_ours_runs_its_tests_and_pays_nothing_for_the_plugin(
    environment: Path, project: Path
) -> None:
    python = environment / "python"
    output = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], project)

    assert "3 passed" in output
    assert "--ottla-nodes" in run([python, "-m", "pytest", "--help"], project)
    assert run([python, "-c", PLUGIN_ALONE], project) == "['ottla', 'ottla.pytest_plugin']\n"
    assert "topic" in run([environment / "ottla", "--help"], project)
    assert "topic" in run([python, "-m", "ottla", "--help"], project, PYTHONPATH=str(project))
    imported = "import ottla.testing, ottla.node, node; print(node.SIZE, ottla.__version__)"
    assert run([python, "-c", imported], project) == f"3 {VERSION}\n"
