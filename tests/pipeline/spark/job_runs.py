"""Job files, and their runs in the tests' own session."""

import importlib
import textwrap
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.pipeline.jobs.job import Flow, JobFile, PythonStep
from ottla.pipeline.jobs.job_status import JobState
from ottla.pipeline.jobs.runner import JobRun


def write_jobs(folder: Path, text: str) -> Path:
    """Write a job file, whose text may be indented."""
    path = folder / "jobs.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def import_steps(file: JobFile) -> None:
    """Import the modules of the steps: pytest's import in one job's thread is not safe beside another's."""
    for job in file.jobs:
        for step in job.work.steps if isinstance(job.work, Flow) else ():
            if isinstance(step, PythonStep):
                importlib.import_module(step.module)


def run_jobs(file: JobFile, spark: SparkSession, *names: str) -> None:
    """Run jobs side by side, until each has all present data."""
    import_steps(file)
    for status in JobRun(file, session=spark, only=names).run():
        assert status.state is JobState.FINISHED, status.trace
