"""The pages on Spark, run as written, except for addresses, folders and the session.

Their shell lines run in the order of the page. One node for all of them replaces `ottla start`, and `ottla
pipeline run` runs in the session of the tests.
"""

import contextlib
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.node.embedded import Cluster as Nodes
from ottla.pipeline.jobs.job import Flow
from ottla.pipeline.jobs.job_reader import read_job_file
from ottla.pipeline.jobs.runner import run
from tests.compat.servers import start_ottla
from tests.pages import ROOT, missing_line, page_blocks
from tests.pipeline.secured import PASSWORDS, secured
from tests.pipeline.topics import fill, make_topic

pytestmark = pytest.mark.slow


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """Start a node for this page only."""
    server = start_ottla(tmp_path / "node")
    yield server.bootstrap
    server.stop()


def run_shell(lines: str, folder: Path, **environment: str) -> str:
    """Run lines of a page as a reader pastes them; return what they print."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", lines],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (lines, done.stdout)
    return done.stdout


def run_python(code: str, bootstrap: str, folder: Path) -> None:
    program = folder / "program.py"
    # Spark's Java process, which the tests share, has another working directory.
    code = code.replace('"orders-copies"', f'"{folder}/orders-copies"')
    program.write_text(code.replace("localhost:9092", bootstrap).replace("/tmp/", f"{folder}/"))
    with contextlib.chdir(folder):
        runpy.run_path(str(program))


def save(page: str, name: str, folder: Path, addresses: dict[str, str]) -> Path:
    """Save a block of a page under its title, as its reader does."""
    [text] = page_blocks(page, "yaml", title=name)
    for old, new in addresses.items():
        text = text.replace(old, new)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.usefixtures("spark")
def test_a_topic_is_read_and_copied_as_the_page_says(
    bootstrap: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [_, _, makes, looks, *_] = page_blocks("docs/spark.md", "sh")
    [reads, counts, writes, *_] = page_blocks("docs/spark.md", "python")

    run_shell(makes, tmp_path, OTTLA_BOOTSTRAP=bootstrap)
    run_python(reads + counts + writes, bootstrap, tmp_path)
    shown = capfd.readouterr().out
    copies = run_shell(looks, tmp_path, OTTLA_BOOTSTRAP=bootstrap)

    assert "2 apples" in shown
    # once in a batch, and again by a stream
    assert sorted(copies.splitlines()) == ["1 pear"] * 2 + ["2 apples"] * 2


@pytest.mark.usefixtures("spark")
def test_a_secured_topic_is_read_as_the_page_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [keeps] = [block for block in page_blocks("docs/spark.md", "sh") if "secrets.properties" in block]
    [reads] = [block for block in page_blocks("docs/spark.md", "python") if "security.protocol" in block]
    with secured(tmp_path) as server:
        fill(server.bootstrap("ADMIN"), make_topic(server.bootstrap("ADMIN"), name="greetings"), [b"hello"])
        server.grant("anna", "topic greetings read")
        run_shell(keeps.replace("admin-secret", PASSWORDS["anna"]), tmp_path)
        address = server.bootstrap("SASL")
        run_python(reads.replace("localhost:9093", address).replace('"admin"', '"anna"'), "", tmp_path)
    shown = capfd.readouterr().out

    assert "greetings" in shown and "68 65 6C 6C 6F" in shown
    assert (tmp_path / "secrets.properties").stat().st_mode & 0o077 == 0


def test_a_job_file_runs_as_the_page_says(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    [start, makes, runs] = page_blocks("docs/jobs.md", "sh")
    validate, pipeline, status, looks = runs.splitlines()
    file = save("docs/jobs.md", "shop.yaml", tmp_path, {"localhost:9092": bootstrap})

    run_shell(makes + validate, tmp_path, OTTLA_BOOTSTRAP=bootstrap)
    with contextlib.chdir(tmp_path):
        reports = run(read_job_file(file), session=spark)
    seen = run_shell(f"{status}\n{looks}", tmp_path, OTTLA_BOOTSTRAP=bootstrap)

    assert start == "ottla start\n" and pipeline.startswith("ottla pipeline run shop.yaml")
    assert [one.state.value for one in reports] == ["FINISHED"]
    [shown] = page_blocks("docs/jobs.md", "text")
    assert missing_line(shown, seen) is None, seen
    assert "bert\t1" in seen


@pytest.mark.usefixtures("spark")
def test_a_table_goes_to_a_lake_as_the_page_says(
    bootstrap: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [_, makes, validates] = page_blocks("docs/connectors.md", "sh")
    [code] = page_blocks("docs/connectors.md", "python")
    save("docs/connectors.md", "air.yaml", tmp_path, {})

    run_shell(makes, tmp_path, OTTLA_BOOTSTRAP=bootstrap)
    run_python(code, bootstrap, tmp_path)
    shown = capfd.readouterr().out
    validated = run_shell(validates, tmp_path)

    assert "2 rows are new" in shown
    assert "nothing is wrong" in validated


def test_topics_of_one_cluster_are_copied_to_another_as_the_page_says(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    [_, _, makes, runs] = page_blocks("docs/mirror.md", "sh")
    mirror, *then = runs.splitlines()
    with Nodes(nodes=1) as other, contextlib.chdir(tmp_path):
        addresses = {"127.0.0.1:19092": bootstrap, "127.0.0.1:29092": other.bootstrap}
        looks = "\n".join(then)
        for old, new in addresses.items():
            makes, looks = makes.replace(old, new), looks.replace(old, new)
        run_shell(makes, tmp_path)
        reports = run(
            read_job_file(save("docs/mirror.md", "mirror.yaml", tmp_path, addresses)), session=spark
        )
        seen = run_shell(looks, tmp_path)

    assert mirror == "ottla pipeline run mirror.yaml"
    assert [(one.job, one.state.value) for one in reports] == [("a-to-b", "FINISHED")]
    [shown] = page_blocks("docs/mirror.md", "text")
    assert missing_line(shown, seen) is None, seen


def test_the_stream_jobs_of_the_page_are_in_the_example() -> None:
    """All of them run in test_streams, over topics as the demo leaves them."""
    commands = page_blocks("docs/streams.md", "sh")[1].splitlines()
    [command] = [shlex.split(line, comments=True) for line in commands if line.startswith("ottla pipeline")]
    [_, _, _, path, option, name] = command

    file = read_job_file(ROOT / path, {"OTTLA_BOOTSTRAP": "localhost:9092"})

    written = {job.name: job.work.sink.options["topic"] for job in file.jobs if isinstance(job.work, Flow)}
    assert option == "--job" and len(written) == len(file.jobs)
    assert f"ottla topic create {written[name]}" in commands
    others = [topic for job, topic in written.items() if job != name]
    page = (ROOT / "docs" / "streams.md").read_text()
    assert [topic for topic in others if f"`{topic}`" not in page] == []
