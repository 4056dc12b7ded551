"""The command `ottla pipeline`. Modules that do the work are imported when needed (door)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NoReturn

import typer

from ottla.logstore.words.escaped_text import escape_controls
from ottla.pipeline.spark_needed import how_to_install, missing_for_spark

if TYPE_CHECKING:
    from ottla.pipeline.jobs.job import JobFile
    from ottla.pipeline.jobs.job_status import JobStatus

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2

pipeline = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run jobs on Spark: streams between topics, files and databases, described in a YAML file.",
)
File = Annotated[Path, typer.Argument(metavar="FILE.yaml", help="a job file")]


@pipeline.command("run")
def run(
    file: File,
    job: Annotated[
        list[str] | None, typer.Option("--job", metavar="NAME", help="run only this job; repeatable")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="URL of the Spark master; overrides the file"),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=1, max=65535, help="serve metrics at http://HOST:PORT/metrics"),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="HOST", help="the address to serve metrics at")
    ] = "127.0.0.1",
) -> None:
    """Run the jobs of a file until they end.

    Ctrl-C or SIGTERM stops each job after its current batch; a second one, or the end of the file's
    stopTimeout, stops all at once. The exit code is 1 if a job failed, and 2 if the file has errors.

    Example: ottla pipeline run jobs.yaml --job totals
    """
    read = _read(file)
    unknown = sorted(set(job or ()) - {one.name for one in read.jobs})
    if unknown:
        names = ", ".join(one.name for one in read.jobs)
        _fail(f"There is no job {unknown[0]} in {file}; its jobs are {names}.", EXIT_USAGE)
    from ottla.pipeline.jobs.job_status import JobState
    from ottla.pipeline.jobs.runner import JobRun
    from ottla.pipeline.jobs.status_files import AlreadyRunsError
    from ottla.pipeline.spark.java import NoJavaError
    from ottla.pipeline.spark.metrics_server import MetricsServer
    from ottla.pipeline.spark.query_metrics import QueryMetrics
    from ottla.pipeline.spark.session import NoFormatError

    metrics = None if metrics_port is None else QueryMetrics()
    if metrics is not None and metrics_port is not None:
        try:
            MetricsServer(metrics, host=metrics_host, port=metrics_port)  # as long as this process runs
        except OSError as error:
            _fail(f"Metrics cannot be served at {metrics_host}:{metrics_port}: {error.strerror or error}.")
    job_run = JobRun(read, only=job or (), master=master, report=_report, takes_signals=True, metrics=metrics)
    try:
        statuses = job_run.run()
    except AlreadyRunsError as error:
        _fail(f"{str(error)[0].upper()}{str(error)[1:]}.")
    except (NoJavaError, NoFormatError) as error:
        _fail(f"{error}.")
    if any(status.state is JobState.FAILED for status in statuses):
        raise typer.Exit(EXIT_FAILURE)


@pipeline.command("validate")
def validate(files: Annotated[list[Path], typer.Argument(metavar="FILE.yaml...")]) -> None:
    """Check job files without starting Spark or contacting a cluster.

    All errors are printed, each as FILE:LINE: key: reason. The exit code is 2 if there are any.
    """
    _need_spark()
    from ottla.pipeline.jobs.job_reader import read_job_file
    from ottla.pipeline.jobs.problems import JobFileError

    is_wrong = False
    for file in files:
        try:
            read = read_job_file(file)
        except JobFileError as error:
            print(error, file=sys.stderr)
            is_wrong = True
        else:
            print(f"{file}: {', '.join(job.name for job in read.jobs)}: nothing is wrong")
    if is_wrong:
        raise typer.Exit(EXIT_USAGE)


@pipeline.command("status")
def status(
    file: File,
    output: Annotated[Literal["text", "json"], typer.Option("--output", help="output format")] = "text",
) -> None:
    """Show the status of the jobs of a file: state, last batch, rows, rows per second, lag in records.

    The status is read from files that `ottla pipeline run` writes, so this works on any machine that can read
    the storage. The exit code is 1 if a job has failed. A job whose process is gone counts as failed on the
    machine that ran it; elsewhere it is shown as running, and UPDATED no longer changes.
    """
    read = _read(file)
    import json

    from ottla.pipeline.jobs.job_status import JobState, StatusError
    from ottla.pipeline.jobs.status_files import find_status
    from ottla.pipeline.jobs.status_table import as_table

    if read.status_folder is None:
        _fail(
            f"The storage {read.storage} is not a local folder: set `status:` in {file} to one.", EXIT_USAGE
        )
    try:
        statuses = [find_status(read.status_folder, job.name) for job in read.jobs]
    except StatusError as error:
        _fail(f"{error}.")
    if output == "json":
        rows = [json.loads(one.to_json()) for one in statuses]
        print(json.dumps({"name": read.name, "jobs": rows}, indent=2))
    else:
        print(as_table(statuses))
    if any(one.state is JobState.FAILED for one in statuses):
        raise typer.Exit(EXIT_FAILURE)


def _read(file: Path) -> "JobFile":
    _need_spark()
    from ottla.pipeline.jobs.job_reader import read_job_file
    from ottla.pipeline.jobs.problems import JobFileError

    try:
        return read_job_file(file)
    except JobFileError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None


def _need_spark() -> None:
    missing = missing_for_spark()
    if missing:
        _fail(f"Jobs need Spark, but {how_to_install(missing)}")


def _report(status: "JobStatus") -> None:
    """Print a line for a change of a job's state. Text from servers and records may be in its cause."""
    cause = f": {escape_controls(status.cause, keeps_lines=True)}" if status.cause else ""
    print(f"{status.job}: {status.state.value}{cause}", file=sys.stderr, flush=True)


def _fail(sentence: str, code: int = EXIT_FAILURE) -> NoReturn:
    print(f"ottla: {sentence}", file=sys.stderr)
    raise typer.Exit(code)
