"""Status files between processes: written atomically, and true after a process is gone."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipeline.jobs.job_status import JobState, JobStatus, StatusError
from ottla.pipeline.jobs.status_files import AlreadyRunsError, find_status, hold_locks, write_status

RUNNING = JobStatus(job="a", state=JobState.RUNNING, pid=1234567, host=socket.gethostname())


def test_a_job_that_never_ran_is_unassigned(tmp_path: Path) -> None:
    assert find_status(tmp_path, "a") == JobStatus(job="a")


def test_a_status_is_the_only_file_beside_the_lock(tmp_path: Path) -> None:
    with hold_locks(tmp_path, ("a",)):
        write_status(tmp_path, RUNNING)
        write_status(tmp_path, RUNNING)

        assert find_status(tmp_path, "a") == RUNNING
        assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["lock", "status.json"]


def test_a_running_job_whose_process_is_gone_has_failed(tmp_path: Path) -> None:
    with hold_locks(tmp_path, ("a",)):
        write_status(tmp_path, RUNNING)

    found = find_status(tmp_path, "a")

    assert (found.state, found.cause) == (
        JobState.FAILED,
        "process 1234567, which ran the job, no longer exists",
    )


def test_a_status_of_another_host_is_believed(tmp_path: Path) -> None:
    elsewhere = JobStatus(job="a", state=JobState.RUNNING, pid=1, host="elsewhere")
    write_status(tmp_path, elsewhere)

    assert find_status(tmp_path, "a") == elsewhere


def test_a_job_runs_once(tmp_path: Path) -> None:
    with hold_locks(tmp_path, ("a", "b")):
        write_status(tmp_path, RUNNING)
        with (
            pytest.raises(AlreadyRunsError, match="the job a is already run by another process, 1234567 on"),
            hold_locks(tmp_path, ("c", "a")),
        ):
            pass
    with hold_locks(tmp_path, ("a", "b", "c")):
        pass


@pytest.mark.slow
def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ottla.pipeline.jobs.status_files import hold_locks\n"
        f"with hold_locks(Path({str(tmp_path)!r}), ('a',)):\n"
        "    print('locked', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"locked\n"
        with pytest.raises(AlreadyRunsError), hold_locks(tmp_path, ("a",)):
            pass
        child.kill()

    with hold_locks(tmp_path, ("a",)):
        pass


def test_a_status_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "status.json").write_text("{")

    with pytest.raises(StatusError, match=r"a/status\.json is not a status of a job"):
        find_status(tmp_path, "a")
