"""Spark Declarative Pipelines: `spark-pipelines` runs the example, with our source and sink."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.spark.java import find_java
from tests.pipeline.topics import fill, make_topic

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "examples" / "declarative"


def run(project: Path, server: str) -> None:
    """Run `spark-pipelines run` in the project's folder, as in an activated .venv; Spark runs already."""
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "JAVA_HOME": str(find_java().path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    ended = subprocess.run(
        [scripts / "spark-pipelines", "run", "--remote", server],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_declarative_pipeline_goes_from_topic_to_topic_exactly_once(
    spark: SparkSession, connect_server: str, bootstrap: str, tmp_path: Path
) -> None:
    pytest.importorskip(
        "pyspark.pipelines.cli", reason="pyspark[pipelines] is not installed", exc_type=Exception
    )
    orders, receipts = make_topic(bootstrap), make_topic(bootstrap)
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    text = spec.read_text()
    for name, value in {
        "file:///tmp/ottla-receipts": f"file://{tmp_path}/storage",
        "localhost:9092": bootstrap,
        "from: orders": f"from: {orders}",
        "to: receipts": f"to: {receipts}",
    }.items():
        assert text.count(name) == 1
        text = text.replace(name, value)
    spec.write_text(text)

    fill(bootstrap, orders, [b"2 apples", b"1 pear"])
    run(project, connect_server)

    rows = (
        spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", receipts)
    )
    found = rows.option("kafka.isolation.level", "read_committed").load().orderBy("offset").collect()
    assert [bytes(row.value) for row in found] == [b"receipt for 2 apples", b"receipt for 1 pear"]
