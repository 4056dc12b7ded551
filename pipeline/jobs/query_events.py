"""The events of a job, from Spark and from the threads that start jobs, in one inbox."""

from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from ottla.pipeline.spark.progress_listener import java_listener

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A job's query runs, or (None) a job without a query is done."""

    job: str
    query: StreamingQuery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """A job could not be started, or failed if it has no query."""

    job: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A micro-batch is done; `progress` has the fields of Spark's JSON of it."""

    job: str
    progress: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Idled:
    """A trigger found no new rows."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """A query has ended; `trace` has the reason if it failed, and is None otherwise."""

    job: str
    trace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """A request to stop all jobs after their micro-batch, or at once if they were asked before."""


Event = Started | NotStarted | Progressed | Idled | Terminated | StopRequested
# A signal handler may call its `put`, whatever the process does at that moment.
Inbox = SimpleQueue[Event]


class JobListener(StreamingQueryListener):
    """Puts the events of a job session's query into an inbox; Spark calls it in its own threads."""

    def __init__(self, job: str, inbox: Inbox) -> None:
        self._job = job
        self._inbox = inbox

    @cached_property
    def _jlistener(self) -> "JavaObject":
        return java_listener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: the thread that starts the query sends this event."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._inbox.put(Progressed(job=self._job, progress=dict(event.progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._inbox.put(Idled(job=self._job))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._inbox.put(Terminated(job=self._job, trace=event.exception))
