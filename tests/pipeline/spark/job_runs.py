"""Files of jobs, and their runs in the tests' own session."""

import importlib
import textwrap
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.pipeline.jobs.job import Flow, JobFile, PythonStep
from ottla.pipeline.jobs.job_status import JobState
from ottla.pipeline.jobs.runner import JobRun


def write_jobs(folder: Path, text: str) -> Path:
    """A file of jobs, whose text may be indented."""
    path = folder / "jobs.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def import_steps(file: JobFile) -> None:
    """Their modules: pytest's import of one in the thread of a job is not safe beside another's."""
    for job in file.jobs:
        for step in job.work.steps if isinstance(job.work, Flow) else ():
            if isinstance(step, PythonStep):
                importlib.import_module(step.module)


def run_jobs(file: JobFile, spark: SparkSession, *names: str) -> None:
    """Side by side, until each has all that is there."""
    import_steps(file)
    for status in JobRun(file, session=spark, only=names).run():
        assert status.state is JobState.FINISHED, status.trace
