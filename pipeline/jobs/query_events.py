"""What happens to a job, as Spark and the threads that start jobs tell it: events in one inbox."""

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
    """A job's query runs, or (None) a job that is no query has done all it had to."""

    job: str
    query: StreamingQuery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """A job could not be started, or failed where it is no query."""

    job: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A batch is done; `progress` is Spark's own JSON of it."""

    job: str
    progress: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Idled:
    """A trigger found nothing to do."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """A query has ended; `trace` says why, if it failed."""

    job: str
    trace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """All jobs are to stop: after their batch, or, asked again, at once."""


Event = Started | NotStarted | Progressed | Idled | Terminated | StopAsked
# Its `put` may be called in a signal handler, whatever the process does at that moment.
Inbox = SimpleQueue[Event]


class JobListener(StreamingQueryListener):
    """Tells of the one query of a job's session; Spark calls it in threads of its own."""

    def __init__(self, job: str, inbox: Inbox) -> None:
        self._job = job
        self._inbox = inbox

    @cached_property
    def _jlistener(self) -> "JavaObject":
        return java_listener(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """The thread that starts the query tells that."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self._inbox.put(Progressed(job=self._job, progress=dict(event.progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._inbox.put(Idled(job=self._job))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._inbox.put(Terminated(job=self._job, trace=event.exception))
