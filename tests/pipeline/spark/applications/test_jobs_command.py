"""`ottla pipeline run` as a process: it runs until a signal stops it, and not at all with an invalid file."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.pipeline.jobs.cli import pipeline
from ottla.pipeline.jobs.job_status import JobState
from ottla.pipeline.jobs.status_files import find_status
from tests.pipeline.spark.job_runs import write_jobs
from tests.pipeline.spark.sessions import JAVA_OPTIONS

ROOT = Path(__file__).parents[4]


@pytest.mark.slow
@pytest.mark.thorough
def test_the_command_runs_until_its_process_group_gets_a_signal(tmp_path: Path) -> None:
    path = write_jobs(
        tmp_path,
        f"""
        name: shop
        storage: state
        master: local[1]
        configuration: {{spark.ui.enabled: false, spark.driver.extraJavaOptions: {JAVA_OPTIONS}}}
        jobs:
          counts:
            source: {{format: rate-micro-batch, rowsPerBatch: 10}}
            sink: {{format: noop}}
            trigger: {{processingTime: 100 ms}}
        """,
    )
    command = [sys.executable, "-m", "ottla", "pipeline"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # In a session of its own, as on a terminal: the signal goes to all of its processes.
    running = subprocess.Popen(
        [*command, "run", str(path)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert running.stderr is not None
        while find_status(tmp_path / "state", "counts").progress is None:
            assert running.stderr.readline(), "it ended before its first batch"
            if find_status(tmp_path / "state", "counts").query_id is not None:
                break
        shown = CliRunner().invoke(pipeline, ["status", str(path), "--output", "json"])
        again = subprocess.run([*command, "run", str(path)], env=environment, capture_output=True, text=True)
        os.killpg(running.pid, signal.SIGTERM)
        errors = running.communicate(timeout=120)[1]
    finally:
        running.kill()
        running.wait()

    [job] = json.loads(shown.stdout)["jobs"]
    assert (shown.exit_code, job["state"], job["pid"]) == (0, "RUNNING", running.pid)
    assert again.returncode == 1 and "The job counts is already run by another process" in again.stderr
    assert running.returncode == 0, errors
    assert "counts: STOPPED" in errors
    assert find_status(tmp_path / "state", "counts").state is JobState.STOPPED


@pytest.mark.slow
def test_a_wrong_file_is_rejected_before_spark_starts(tmp_path: Path) -> None:
    path = write_jobs(
        tmp_path,
        "name: shop\nstorage: s\njobs:\n  a: {source: {format: rat}, sink: {format: noop}, snik: {}}\n",
    )

    ended = subprocess.run(
        [sys.executable, "-m", "ottla", "pipeline", "run", str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": ""},
        capture_output=True,
        text=True,
    )
    others = [CliRunner().invoke(pipeline, [word, str(path)]) for word in ("validate", "status")]

    assert [ended.returncode, *(one.exit_code for one in others)] == [2, 2, 2]
    for errors in (ended.stderr, *(one.stderr for one in others)):
        assert errors.splitlines() == [
            f"{path}:4: jobs.a.snik: is unknown; sink?",
            f"{path}:4: jobs.a.source.format: is unknown; rate?",
        ]
