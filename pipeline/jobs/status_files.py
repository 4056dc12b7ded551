"""Statuses in a folder, a file per job, for other processes, and a lock per job, so that it runs once (door).

The kernel releases a lock when its process ends, so if a status of this host is RUNNING and the lock is free,
the process is gone. Locks of processes on other hosts are not looked at.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from ottla.pipeline.jobs.job_status import (
    MAX_STATUS_BYTES,
    JobState,
    JobStatus,
    StatusError,
    read_status,
)

STATUS_FILE: Final = "status.json"
LOCK_FILE: Final = "lock"


class AlreadyRunsError(Exception):
    """Another process runs a job; the message is a sentence."""


def write_status(folder: Path, status: JobStatus) -> None:
    """Write a status atomically: a reader sees either the one before or this one."""
    where = folder / status.job
    where.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=where, prefix=".status-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(status.to_json())
        Path(name).chmod(0o644)
        Path(name).replace(where / STATUS_FILE)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def find_status(folder: Path, job: str) -> JobStatus:
    """Return the status of a job now, UNASSIGNED if it has no file; StatusError if that cannot be read.

    RUNNING becomes FAILED if the process ran on this host and is gone.
    """
    path = folder / job / STATUS_FILE
    try:
        with path.open("rb") as file:
            content = file.read(MAX_STATUS_BYTES + 1)
    except FileNotFoundError:
        return JobStatus(job=job)
    except OSError as error:
        raise StatusError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_STATUS_BYTES:
        raise StatusError(f"{path} is larger than {MAX_STATUS_BYTES} bytes")
    try:
        status = read_status(content)
    except StatusError as error:
        raise StatusError(f"{path} {error}") from None
    if (
        status.state is JobState.RUNNING
        and status.host == socket.gethostname()
        and not _is_locked(folder / job)
    ):
        cause = f"process {status.pid}, which ran the job, no longer exists"
        return replace(status, state=JobState.FAILED, cause=cause)
    return status


@contextmanager
def hold_locks(folder: Path, jobs: tuple[str, ...]) -> Iterator[None]:
    """Hold the locks of these jobs; AlreadyRunsError if another process has one."""
    files = []
    try:
        for job in jobs:
            (folder / job).mkdir(parents=True, exist_ok=True)
            file = (folder / job / LOCK_FILE).open("ab")
            files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = _owner_text(folder, job)
                raise AlreadyRunsError(f"the job {job} is already run by another process{owner}") from None
        yield
    finally:
        for file in files:
            file.close()


def _owner_text(folder: Path, job: str) -> str:
    """Return `, PID on HOST` of the process that last wrote the job's status, or "" if it is unknown."""
    try:
        status = find_status(folder, job)
    except StatusError:
        return ""
    return "" if status.pid is None else f", {status.pid} on {status.host}"


def _is_locked(where: Path) -> bool:
    try:
        with (where / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
