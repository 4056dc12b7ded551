"""Job files for tests."""

from pathlib import Path
from textwrap import dedent

from ottla.pipeline.jobs.job import JobFile
from ottla.pipeline.jobs.job_reader import read_job_file
from ottla.pipeline.jobs.problems import JobFileError

GOOD = """
name: shop
storage: state
configuration:
  spark.sql.shuffle.partitions: 4
jobs:
  totals:
    source: {format: ottla, kafka.bootstrap.servers: "a:9092", subscribe: orders}
    transform:
      - sql: SELECT key, value FROM source
    sink: {format: ottla, kafka.bootstrap.servers: "a:9092", topic: totals, delivery.guarantee: exactly_once}
    trigger: {processingTime: 1 second}
"""


def read(folder: Path, text: str, environment: dict[str, str] | None = None) -> JobFile:
    path = folder / "jobs.yaml"
    path.write_text(dedent(text))
    return read_job_file(path, environment or {}, [])


def problems(folder: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    """Return `LINE: key: reason` of each problem."""
    try:
        read(folder, text, environment)
    except JobFileError as error:
        return [str(problem) for problem in error.problems]
    return []


def with_job(*lines: str) -> str:
    """Return a file with one job of these lines, which begin on line 5."""
    return "\n".join(
        ["name: shop", "storage: state", "jobs:", "  totals:", *(f"    {line}" for line in lines)]
    )


RATE = "source: {format: rate}"
NOOP = "sink: {format: noop}"
