"""What the README shows of Spark, run as it stands there, but for addresses, folders and the session."""

import contextlib
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from node.embedded import Cluster as Nodes
from pipeline.jobs.job import Flow
from pipeline.jobs.job_reader import read_job_file
from pipeline.jobs.runner import run
from tests.compat.servers import start_ottla
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import delete_topic, fill_keys, make_topic
from tests.readme import ROOT, blocks, failed, run_lines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node where nobody else has topics of these names."""
    server = start_ottla(tmp_path_factory.mktemp("readme"))
    yield server.bootstrap
    server.stop()


@pytest.fixture
def orders(bootstrap: str) -> Iterator[str]:
    """The topic of the README's first commands, with what they wrote."""
    topic = make_topic(bootstrap, name="orders", partitions=3)
    fill_keys(bootstrap, topic, [("anna", b"2 apples"), ("bert", b"1 pear")])
    yield topic
    delete_topic(bootstrap, topic)


@pytest.fixture
def payments(bootstrap: str) -> Iterator[str]:
    """The topic of the README's three nodes."""
    topic = make_topic(bootstrap, name="payments")
    yield topic
    delete_topic(bootstrap, topic)


def run_python(code: str, bootstrap: str, folder: Path) -> None:
    program = folder / "program.py"
    # Spark's Java process, which the tests share, has a working directory of its own.
    code = code.replace('"orders-copies"', f'"{folder}/orders-copies"')
    program.write_text(code.replace("localhost:9092", bootstrap).replace("/tmp/", f"{folder}/"))
    with contextlib.chdir(folder):
        runpy.run_path(str(program))


def file_in(block: str, name: str, folder: Path) -> Path:
    """What a shell's block writes into this file."""
    content = re.search(rf"cat > {re.escape(name)} <<'EOF'\n(.*?)^EOF\n", block, flags=re.S | re.M)
    assert content is not None
    (folder / name).write_text(content[1])
    return folder / name


@pytest.mark.usefixtures("spark")
def test_a_topic_is_read_and_copied_as_the_readme_says(
    bootstrap: str,
    orders: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    [reads, writes] = blocks("Topics in Spark", "python")
    make_topic(bootstrap, name="copies")

    run_python(reads + writes, bootstrap, tmp_path)

    assert "2 apples" in capfd.readouterr().out
    # In a batch, and again by a stream.
    assert (
        sorted(one.value() for one in read_topic(bootstrap, "copies")) == [b"1 pear"] * 2 + [b"2 apples"] * 2
    )


def test_a_job_file_runs_as_the_readme_says(
    spark: SparkSession, bootstrap: str, orders: str, tmp_path: Path
) -> None:
    shell = blocks("Jobs on Spark", "sh")[0].replace("localhost:9092", bootstrap)
    make_topic(bootstrap, name="totals")

    with contextlib.chdir(tmp_path):
        told = run(read_job_file(file_in(shell, "shop.yaml", tmp_path)), session=spark)

    assert [one.state.value for one in told] == ["FINISHED"]
    assert sorted(one.value() for one in read_topic(bootstrap, "totals")) == [b"1", b"2"]


@pytest.mark.usefixtures("spark")
def test_a_table_goes_to_a_lake_as_the_readme_says(
    bootstrap: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [code] = blocks("Connectors on Spark", "python")
    make_topic(bootstrap, name="flights")

    run_python(code, bootstrap, tmp_path)

    assert "2 rows are new" in capfd.readouterr().out


def test_topics_of_one_cluster_come_to_another_as_the_readme_says(
    spark: SparkSession, bootstrap: str, payments: str, tmp_path: Path
) -> None:
    shell = blocks("Topics of one cluster in another", "sh")[1]
    with Nodes(nodes=1) as other, contextlib.chdir(tmp_path):
        shell = shell.replace("127.0.0.1:19092", bootstrap).replace("127.0.0.1:29092", other.bootstrap)
        produce, mirror, *then = shell.partition("\nEOF\n")[2].splitlines()
        job = read_job_file(file_in(shell, "mirror.yaml", tmp_path))
        produced = run_lines(produce, tmp_path)
        told = run(job, session=spark)
        seen = run_lines("\n".join(then), tmp_path)

    assert failed(produced + seen) == []
    assert mirror == "ottla pipeline run mirror.yaml"
    assert [(one.job, one.state.value) for one in told] == [("a-to-b", "FINISHED")]
    assert "hello" in seen[0].output and payments in seen[1].output


def test_the_readmes_stream_jobs_are_in_the_example() -> None:
    """All of them are run in test_streams, over topics as the demo leaves them."""
    commands = blocks("Stream processing on Spark", "sh")[1].splitlines()
    [command] = [shlex.split(line, comments=True) for line in commands if line.startswith("ottla pipeline")]
    [_, _, _, path, option, name] = command

    file = read_job_file(ROOT / path, {"OTTLA_BOOTSTRAP": "localhost:9092"})

    written = {job.name: job.work.sink.options["topic"] for job in file.jobs if isinstance(job.work, Flow)}
    assert option == "--job" and len(written) == len(file.jobs)
    assert f"ottla topic create {written[name]}" in commands
    others = [topic for job, topic in written.items() if job != name]
    readme = (ROOT / "README.md").read_text()
    assert [topic for topic in others if f"`{topic}`" not in readme] == []
