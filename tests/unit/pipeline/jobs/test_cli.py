"""The commands before Spark is needed, and the way `ottla` finds them."""

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.node.cli.app import app
from ottla.pipeline import spark_needed
from ottla.pipeline.jobs import cli
from ottla.pipeline.jobs.job_status import JobState, JobStatus
from ottla.pipeline.jobs.status_files import write_status
from ottla.pipeline.spark import metrics_server
from tests.unit.pipeline.jobs.job_texts import GOOD, NOOP, RATE, with_job

run = CliRunner().invoke


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_ottla_finds_the_commands_though_it_imports_none() -> None:
    assert "pipeline" in run(app, ["--help"]).output
    assert run(app, ["pipeline", "validate", "--help"]).exit_code == 0
    assert run(app, ["pipelines"]).exit_code == 2


@pytest.mark.parametrize("words", [["run"], ["validate"], ["status"]])
def test_without_spark_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, good: Path, words: list[str]
) -> None:
    monkeypatch.setattr(spark_needed, "NEEDED", ("no_such_module",))

    ended = run(cli.pipeline, [*words, str(good)])

    assert ended.exit_code == 1
    assert "no_such_module is missing" in ended.output and "install 'ottla[spark]'" in ended.output


def test_several_files_are_checked_and_all_errors_are_reported(tmp_path: Path, good: Path) -> None:
    wrong, missing = tmp_path / "wrong.yaml", tmp_path / "missing.yaml"
    wrong.write_text(with_job(RATE, "sink: {format: nop}"))

    ended = run(cli.pipeline, ["validate", str(wrong), str(good), str(missing)])

    assert ended.exit_code == 2
    assert sorted(ended.output.splitlines()) == [
        f"{good}: totals: nothing is wrong",
        f"{missing}:1: cannot be read: No such file or directory",
        f"{wrong}:6: jobs.totals.sink.format: is unknown; noop?",
    ]


def test_a_job_that_is_not_in_the_file_is_named(good: Path) -> None:
    ended = run(cli.pipeline, ["run", str(good), "--job", "total"])

    assert ended.exit_code == 2
    assert f"There is no job total in {good}; its jobs are totals." in ended.output


def test_a_failed_job_sets_the_exit_code_of_its_status(tmp_path: Path, good: Path) -> None:
    codes = []
    for state in (JobState.FINISHED, JobState.FAILED):
        write_status(tmp_path / "state", JobStatus(job="totals", state=state, cause="it broke"))
        codes.append(run(cli.pipeline, ["status", str(good)]).exit_code)

    assert codes == [0, 1]


def test_a_storage_elsewhere_needs_a_folder_for_statuses(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    text = with_job(RATE, NOOP).replace("storage: state", "storage: s3a://bucket/state")
    path.write_text(text)
    result = run(cli.pipeline, ["status", str(path)])
    path.write_text(f"status: here\n{text}")

    assert result.exit_code == 2 and "set `status:`" in result.output
    assert run(cli.pipeline, ["status", str(path)]).exit_code == 0


def test_metrics_that_cannot_be_served_are_refused_before_spark_is_started(
    monkeypatch: pytest.MonkeyPatch, good: Path
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(metrics_server, "MetricsServer", taken)

    ended = run(cli.pipeline, ["run", str(good), "--metrics-port", "9464"])

    assert ended.exit_code == 1
    assert "Metrics cannot be served at 127.0.0.1:9464: Address already in use." in ended.output
