"""The oldest supported Spark: an application on it writes, reads and copies a topic, exactly once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from ottla.pipeline.spark.java import NoJavaError, find_java
from ottla.pipeline.spark.worker_python import worker_python
from tests.pipeline.spark.crash_queries import BATCHES, check_rows
from tests.pipeline.topics import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

ROOT = Path(__file__).resolve().parents[4]
# `scripts/setup thorough` puts it there, beside the packages of .venv, which has the newest one.
PYSPARK = ROOT / ".venv" / "pyspark-4.2"
TIMEOUT_S = 400


def test_an_application_on_the_oldest_spark_writes_reads_and_copies_exactly_once(
    bootstrap: str, tmp_path: Path
) -> None:
    if not (PYSPARK / "pyspark").is_dir():
        pytest.skip("scripts/setup thorough has not put PySpark 4.2 into .venv/pyspark-4.2")
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    topic, copied = make_topic(bootstrap), make_topic(bootstrap, partitions=3)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": copied,
        "transactional.id": f"T.{uuid4().hex}",
    }

    request = json.dumps({"topic": topic, "folder": str(tmp_path), "options": options})
    ran = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.spark.applications.earlier_spark", bootstrap, request],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(PYSPARK), str(ROOT)]),
            # As where Spark is installed beside Python, so that workers do not compile modules again.
            "PYSPARK_PYTHON": worker_python(),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert ran.returncode == 0, ran.stderr
    begun, filtered, table, ended = (json.loads(line) for line in ran.stdout.splitlines())
    assert begun["pyspark"].startswith("4.2.") and begun["spark"].startswith("4.2.")
    assert begun["values"] == ["0", "1", "2"]
    assert filtered == {"late": 2, "all": 3, "scanned": 2, "both": 5}
    assert table == {"counts": [3, 4]}
    assert ended == {"failures": []}
    check_rows(bootstrap, copied, BATCHES)
