"""Job files: `run(read_job_file(Path("shop.yaml")))` does the same as `ottla pipeline run shop.yaml`."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.jobs.job import JobFile
    from ottla.pipeline.jobs.job_reader import read_job_file
    from ottla.pipeline.jobs.job_status import JobStatus
    from ottla.pipeline.jobs.problems import JobFileError
    from ottla.pipeline.jobs.runner import run
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = ["JobFile", "JobFileError", "JobStatus", "read_job_file", "run"]
