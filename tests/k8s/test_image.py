"""k8s/Dockerfile without Docker: its steps are run in folders, and a node is run from the result.

The base image is this machine's Python. Each RUN of the build stage is run as it is, but in other folders.
The node then runs as the image's user, with read-only files except for the volume.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.chaos.hosts import network
from tests.integration.cluster.conftest import eventually
from tests.k8s.container import Container, why_no_containers
from tests.k8s.rendered import ROOT, find, overlay

DOCKERFILE = ROOT / "k8s" / "Dockerfile"
STEP_TIMEOUT_S = 300
FOLDERS = ("/opt/ottla", "/src", "/wheels")  # of the build stage
# Compilation of all modules of all packages takes longer than all other steps, and a node loads few of them.
QUICK = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An instruction of a Dockerfile."""

    word: str
    rest: str


def stages() -> list[list[Step]]:
    """Return the instructions of each stage, beginning with its FROM; earlier ones only set arguments."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#")]
    found: list[list[Step]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append(Step(word=word, rest=rest))
    return found


def of(stage: list[Step], word: str) -> list[str]:
    return [step.rest for step in stage if step.word == word]


def locked(name: str) -> dict[str, str]:
    """Return the versions in a requirements file."""
    text = (ROOT / "k8s" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, flags=re.M))


def test_each_dependency_of_the_node_is_locked_to_a_permitted_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["project"]["dependencies"]
    files = {
        "requirements.txt": needed,
        "spark-requirements.txt": needed + project["project"]["optional-dependencies"]["spark"],
        "build-requirements.txt": project["build-system"]["requires"],
    }

    for name, texts in files.items():
        pinned = locked(name)
        for one in map(Requirement, texts):
            assert one.name in pinned, f"{one.name} is not in {name}: run scripts/lock-image"
            assert one.specifier.contains(pinned[one.name]), f"{one} in {name}: run scripts/lock-image"


def test_all_packages_are_installed_by_hash_and_no_compiler_is_left() -> None:
    build, final = stages()

    for command in of(build, "RUN"):
        if command.startswith("pip "):
            assert "--require-hashes" in command or "--no-index" in command, command
    assert of(final, "FROM") == ["${PYTHON}"] and "-slim-" in DOCKERFILE.read_text()
    assert not re.search(r"apt|gcc|pip", " ".join(of(final, "RUN")))
    assert of(final, "USER") == ["10001:10001"]


def test_the_manifests_expect_this_image() -> None:
    _, final = stages()
    spec = find(overlay("three-nodes"), "StatefulSet", "ottla")["spec"]["template"]["spec"]
    [container] = spec["containers"]

    assert f"-t {container['image']} " in DOCKERFILE.read_text()
    assert container["image"] == f"ottla:{version('ottla')}"
    security = spec["securityContext"]
    assert of(final, "USER") == [f"{security['runAsUser']}:{security['runAsGroup']}"]
    assert of(final, "VOLUME") == [container["volumeMounts"][0]["mountPath"]]
    assert set(of(final, "EXPOSE")[0].split()) == {str(one["containerPort"]) for one in container["ports"]}


def context(folder: Path, dockerfile: str = "Dockerfile") -> None:
    """Copy the build context of Docker: the files that .dockerignore permits, with links as links."""
    rules = (ROOT / "k8s" / f"{dockerfile}.dockerignore").read_text().split()
    assert rules[0] == "*"
    for rule in (rule.removeprefix("!") for rule in rules if rule.startswith("!")):
        for source in ROOT.glob(rule):
            target = folder / source.relative_to(ROOT)
            if source.is_dir():
                left_out = shutil.ignore_patterns("__pycache__", "*.so")
                shutil.copytree(source, target, symlinks=True, ignore=left_out)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all steps of the build stage; return the folder in which they ran."""
    folder = tmp_path_factory.mktemp("image")
    sources = folder / "src"
    context(sources)
    base = folder / "base"  # the Python of the stage, into which it installs
    subprocess.run([sys.executable, "-m", "venv", base], check=True)
    build, _ = stages()
    for command in of(build, "RUN"):
        for one in FOLDERS:
            command = re.sub(rf"(?<=[ ]){re.escape(one)}", f"{folder}{one}", f" {command}").strip()
        environment = {**os.environ, "PATH": f"{base}/bin:{os.environ['PATH']}", "PYTHONPATH": "", **QUICK}
        done = subprocess.run(
            ["sh", "-euc", command],
            cwd=sources,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_TIMEOUT_S,
        )
        assert done.returncode == 0, f"RUN {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return folder


@pytest.mark.slow
def test_the_wheel_has_all_files_that_the_node_reads(built: Path) -> None:
    [wheel] = (built / "wheels").glob("ottla-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    sources = [path.relative_to(ROOT) for path in (ROOT / "node").rglob("*") if path.is_file()]

    missing = [
        str(path)
        for path in sources
        if "__pycache__" not in path.parts and not fnmatch(path.name, "*.md") and f"ottla/{path}" not in names
    ]
    assert missing == []
    assert "ottla/logstore/_record_walk.abi3.so" in names and "-cp311-abi3-" in wheel.name


@pytest.mark.slow
def test_a_node_of_the_image_runs_on_read_only_files_without_privileges(built: Path, tmp_path: Path) -> None:
    reason = why_no_containers()
    if reason is not None:
        pytest.skip(reason)
    _, final = stages()
    home = built / "opt" / "ottla"
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "hosts").write_text("127.0.0.1 localhost\n")
    with network() as hosts:
        node = Container(
            tmp_path / "node",
            host=hosts.add(),
            name="ottla-0",
            user=10001,
            etc=etc,
            volume=tmp_path / "data",
            volume_path="/var/lib/ottla",
            environment={},
            command=[word.strip('[]", ') for word in of(final, "CMD")[0].split(",")],
            program=(f"{home}/bin/ottla",),
            sees=(home,),
            sees_checkout=False,
        )
        try:
            eventually(lambda: "READY" in node.output() or not node.is_running, "it serves", 60)
            assert "READY" in node.output(), node.output()
            assert "created" in node.run(["ottla", "topic", "create", "first"], 60).stdout
            assert not (home / "bin" / "pip").exists()
        finally:
            node.kill()


@pytest.mark.slow
def test_the_image_of_spark_jobs_has_the_data_source_and_all_packages_that_jobs_need(tmp_path: Path) -> None:
    context(tmp_path / "src", "spark.Dockerfile")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    command = [*pip, "--wheel-dir", str(tmp_path), "."]
    assert " ".join(pip[3:]) in (ROOT / "k8s" / "spark.Dockerfile").read_text()

    done = subprocess.run(
        command, cwd=tmp_path / "src", capture_output=True, text=True, check=False, timeout=STEP_TIMEOUT_S
    )

    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("ottla-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packages = ("groupcoord", "logstore", "metadata_raft", "node", "pipeline")
    sources = [path.relative_to(ROOT) for package in packages for path in (ROOT / package).rglob("*.py")]
    assert [str(path) for path in sources if f"ottla/{path}" not in names] == []
    assert "pyspark_ottla/__init__.py" in names and "ottla/logstore/_record_walk.abi3.so" in names
    # The program that spark-submit starts, in the manifest.
    manifest = (ROOT / "k8s" / "spark-job.yaml").read_text()
    [program] = re.findall(r"local://\S+/site-packages/(\S+)", manifest)
    assert program in names
