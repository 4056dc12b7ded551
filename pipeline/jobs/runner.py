"""Runs the jobs of a file in one Spark application until they end (door).

Each job has a session with views of its own. All events come through one inbox to one thread, which alone
changes states and writes them down.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from ottla.pipeline.client.clock import wall_ms
from ottla.pipeline.jobs import spark_formats
from ottla.pipeline.jobs.frames import rows_of
from ottla.pipeline.jobs.job import Flow, Job, JobFile
from ottla.pipeline.jobs.job_status import MAX_TRACE_CHARS, JobState, JobStatus, cause_of, read_progress
from ottla.pipeline.jobs.query_events import (
    Event,
    Idled,
    Inbox,
    JobListener,
    NotStarted,
    Progressed,
    Started,
    StopRequested,
    Terminated,
)
from ottla.pipeline.jobs.registry import SINKS, TASKS
from ottla.pipeline.jobs.status_files import hold_locks, write_status
from ottla.pipeline.jobs.stop_signals import stop_on_signals
from ottla.pipeline.spark.active_session import activate
from ottla.pipeline.spark.metrics_server import MetricsListener
from ottla.pipeline.spark.query_metrics import QueryMetrics
from ottla.pipeline.spark.session import start_session
from ottla.pipeline.words import without_secrets

# A status is written at least this often.
HEARTBEAT_S: Final = 5.0
# Spark reports the last progress and the end of a query some time after it is over. If they are later than
# this, they are lost: Spark drops events for which its queue has no room.
MAX_EVENT_DELAY_S: Final = 60.0

# Spark's error when a Python process did not answer in time on a busy machine. The job is not to blame.
NO_WORKER: Final = "Python worker failed to connect back"
MAX_ATTEMPTS: Final = 5
# Its progress bar would appear between the lines about jobs.
DEFAULTS: Final = {"spark.ui.showConsoleProgress": "false"}

Report = Callable[[JobStatus], None]


@dataclass(slots=True)
class _Running:
    """A job that has not ended.

    Its query is None while it starts, and always for a job without a streaming query.
    """

    job: Job
    session: SparkSession
    status: JobStatus
    query: StreamingQuery | None = None
    is_stopped: bool = False  # by us, so any end is as wanted
    over_since_s: float | None = None
    attempts: int = 0


class JobRun:
    """The jobs of a file, run once. `stop` may be called by any thread and by signal handlers."""

    def __init__(
        self,
        file: JobFile,
        *,
        session: SparkSession | None = None,
        only: Collection[str] = (),
        master: str | None = None,
        report: Report | None = None,
        takes_signals: bool = False,
        metrics: QueryMetrics | None = None,
    ) -> None:
        """Prepare to run all jobs of a file, or `only` some of them.

        `session` is used and left as it is; without one a session is started for the file. `metrics` gets the
        events of the jobs' queries. With `takes_signals` SIGTERM and Ctrl-C stop the jobs; `run` must be
        called in the main thread then.
        """
        self._file = file
        self._given = session
        self._jobs = [job for job in file.jobs if not only or job.name in only]
        self._master = master or file.master
        self._report = report or (lambda status: None)
        self._takes_signals = takes_signals
        self._metrics = metrics
        self._inbox: Inbox = SimpleQueue()
        self._active: dict[str, _Running] = {}
        self._ended: list[JobStatus] = []
        self._start_lock = threading.Lock()
        self._is_stopping = False
        self._stop_by_s: float | None = None
        self._heartbeat_at_s = time.monotonic() + HEARTBEAT_S

    def stop(self) -> None:
        """Ask all jobs to stop after their micro-batch, or at once if it is called again."""
        self._inbox.put(StopRequested())

    def run(self) -> tuple[JobStatus, ...]:
        """Run until all jobs have ended; return their statuses, also of failed ones.

        Raises AlreadyRunsError if another process runs one of them, and NoJavaError.
        """
        names = tuple(job.name for job in self._jobs)
        with ExitStack() as stack:
            if self._file.status_folder is not None:
                stack.enter_context(hold_locks(self._file.status_folder, names))
            session = self._given or self._start_session(stack)
            if self._takes_signals:
                stack.enter_context(stop_on_signals(self.stop))
            for job in self._jobs:
                self._begin(job, session.newSession())
            self._handle_events()
        return tuple(sorted(self._ended, key=lambda status: names.index(status.job)))

    # ---- begin --------------------------------------------------------------------------------------

    def _start_session(self, stack: ExitStack) -> SparkSession:
        folder = self._file.path.resolve().parent
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        configuration = {**DEFAULTS, **self._file.configuration}
        session = start_session(self._file.name, configuration, master=self._master, python_folders=[folder])
        stack.callback(_stop_session, session)
        return session

    def _handle_events(self) -> None:
        """Handle events until all jobs have ended; the end of Spark's Java process ends all of them."""
        try:
            while self._active:
                self._handle(self._next_event())
        except (Py4JNetworkError, ConnectionError) as error:
            for one in list(self._active.values()):
                one.is_stopped = False
                self._end_or_retry(one, f"Spark's Java process has ended ({error})")

    def _begin(self, job: Job, session: SparkSession) -> None:
        status = JobStatus(job=job.name, pid=os.getpid(), host=socket.gethostname())
        one = _Running(job=job, session=session, status=status)
        self._active[job.name] = one
        self._move(one, JobState.RUNNING)
        session.streams.addListener(JobListener(job.name, self._inbox))
        if self._metrics is not None:
            session.streams.addListener(MetricsListener(self._metrics))
        self._attempt(one)

    def _attempt(self, one: _Running) -> None:
        """Start the job in a thread.

        A start asks clusters and databases, and a job without a query runs to its end in it.
        """
        one.attempts += 1
        threading.Thread(target=self._start, args=(one,), name=one.job.query.name, daemon=True).start()

    def _start(self, one: _Running) -> None:
        """Start the job's work. Runs in a thread of the job's own."""
        try:
            activate(one.session)
            if self._given is not None:
                for name, value in self._file.configuration.items():
                    one.session.conf.set(name, value)
            one.session.sparkContext.setJobGroup(
                one.job.query.name, one.job.query.name, interruptOnCancel=True
            )
            self._inbox.put(Started(job=one.job.name, query=self._start_work(one.session, one.job)))
        except Exception as error:
            # Any error of the user's functions, a format or Spark fails this job and no other.
            self._inbox.put(NotStarted(job=one.job.name, error=error))

    def _start_work(self, session: SparkSession, job: Job) -> StreamingQuery | None:
        if not isinstance(job.work, Flow):
            return TASKS[job.work.kind]().start(session, job.work.options, job.query)
        # Each source in Python starts a process that must answer in ten seconds: too few if all start at
        # once.
        with self._start_lock:
            rows = rows_of(session, job.work)
            sink = job.work.sink
            kind = SINKS[sink.format]() if sink.format in SINKS else spark_formats.unchecked_sink(sink.format)
            return kind.start(rows, sink.options, job.query)

    # ---- events -------------------------------------------------------------------------------------

    def _next_event(self) -> Event | None:
        """Return the next event, or None when the heartbeat is due, however many events come."""
        wait_s = self._heartbeat_at_s - time.monotonic()
        try:
            if wait_s > 0:
                return self._inbox.get(timeout=wait_s)
        except Empty:
            pass
        self._heartbeat_at_s = time.monotonic() + HEARTBEAT_S
        return None

    def _handle(self, event: Event | None) -> None:
        match event:
            case None:
                self._do_periodic_work()
            case StopRequested():
                self._stop_all()
            case Started() | NotStarted() | Progressed() | Idled() | Terminated():
                one = self._active.get(event.job)
                if one is not None:
                    self._handle_job_event(event, one)

    def _handle_job_event(
        self, event: Started | NotStarted | Progressed | Idled | Terminated, one: _Running
    ) -> None:
        match event:
            case Started(query=None):
                self._end_or_retry(one, None)
            case Started(query=query):
                one.query = query
                one.status = replace(one.status, query_id=None if query is None else str(query.id))
                self._write(one)
                self._stop_if_idle(one)
            case NotStarted(error=error):
                self._end_or_retry(one, f"{error}" if str(error) else repr(error))
            case Progressed(progress=progress):
                one.status = replace(one.status, progress=read_progress(progress, one.status.progress))
                self._write(one)
                if self._is_stopping:
                    self._stop_query(one)
            case Idled():
                if self._is_stopping:
                    self._stop_query(one)
            case Terminated(trace=trace):
                self._end_or_retry(one, trace)

    def _do_periodic_work(self) -> None:
        """Do the periodic work: stops whose time is up, lost end events, statuses."""
        now_s = time.monotonic()
        if self._stop_by_s is not None and now_s >= self._stop_by_s:
            self._stop_by_s = None
            self._stop_all()
        for one in list(self._active.values()):
            if one.query is not None and one.over_since_s is None and not one.query.isActive:
                one.over_since_s = now_s
            if one.query is not None and now_s - (one.over_since_s or now_s) >= MAX_EVENT_DELAY_S:
                error = one.query.exception()
                self._end_or_retry(one, None if error is None else str(error))
            else:
                self._write(one)

    # ---- stop ---------------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        if self._is_stopping:
            for one in list(self._active.values()):
                self._stop_at_once(one)
            return
        self._is_stopping = True
        self._stop_by_s = time.monotonic() + self._file.stop_timeout_ms / 1000
        for one in list(self._active.values()):
            self._stop_if_idle(one)

    def _stop_if_idle(self, one: _Running) -> None:
        """If the run is stopping, stop a query that has no micro-batch under way.

        The next progress or idle event stops any other.
        """
        if self._is_stopping and one.query is not None and not one.query.status["isTriggerActive"]:
            self._stop_query(one)

    def _stop_query(self, one: _Running) -> None:
        if one.query is not None and not one.is_stopped:
            one.is_stopped = True
            one.query.stop()

    def _stop_at_once(self, one: _Running) -> None:
        if one.query is not None:
            self._stop_query(one)
        else:
            one.is_stopped = True
            one.session.sparkContext.cancelJobGroup(one.job.query.name)

    # ---- states -------------------------------------------------------------------------------------

    def _end_or_retry(self, one: _Running, trace: str | None) -> None:
        """End a job, or start it again if its error is that Spark's Python worker did not connect.

        `trace` is the error, None if there is none. A job has at most `MAX_ATTEMPTS` starts, and none after a
        request to stop.
        """
        if trace is not None and NO_WORKER in trace and one.attempts < MAX_ATTEMPTS and not self._is_stopping:
            one.query = one.over_since_s = None
            self._attempt(one)
            return
        del self._active[one.job.name]
        if one.is_stopped:
            self._move(one, JobState.STOPPED)
        elif trace is None:
            self._move(one, JobState.FINISHED)
        else:
            shown = without_secrets(trace, self._file.secrets)[:MAX_TRACE_CHARS]
            self._move(one, JobState.FAILED, cause=cause_of(shown), trace=shown)
        self._ended.append(one.status)
        if (
            one.status.state is JobState.FAILED
            and self._file.stops_with_first_failure
            and not self._is_stopping
        ):
            self._stop_all()

    def _move(
        self, one: _Running, state: JobState, *, cause: str | None = None, trace: str | None = None
    ) -> None:
        one.status = one.status.moved(state, wall_ms(), cause=cause, trace=trace)
        self._write(one)
        self._report(one.status)

    def _write(self, one: _Running) -> None:
        one.status = replace(one.status, updated_ms=wall_ms())
        if self._file.status_folder is not None:
            write_status(self._file.status_folder, one.status)


def run(file: JobFile, *, session: SparkSession | None = None) -> tuple[JobStatus, ...]:
    """Run all jobs of a file until they end; return their statuses."""
    return JobRun(file, session=session).run()


def _stop_session(session: SparkSession) -> None:
    try:
        session.stop()
    except (Py4JNetworkError, ConnectionError):
        pass  # its Java process is gone, which the jobs have reported
