"""The status of a job: a state in Kafka Connect's words and the last progress, as JSON for programs."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Final

from ottla.pipeline.source.progress import lag_of_source
from ottla.pipeline.words import OptionError

MAX_STATUS_BYTES: Final = 1024 * 1024
# A Java trace is long; the file is for readers who want the reason, not all of it.
MAX_TRACE_CHARS: Final = 20_000
MAX_CAUSE_CHARS: Final = 400
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z][a-z0-9_]*\.)+[A-Za-z0-9_$]+: ")


class JobState(Enum):
    """Kafka Connect's states, and FINISHED for a job that ended as it should."""

    UNASSIGNED = "UNASSIGNED"  # not run yet
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"


MOVES: Final[Mapping[JobState, frozenset[JobState]]] = {
    JobState.UNASSIGNED: frozenset({JobState.RUNNING}),
    JobState.RUNNING: frozenset({JobState.FAILED, JobState.STOPPED, JobState.FINISHED}),
    JobState.FAILED: frozenset(),
    JobState.STOPPED: frozenset(),
    JobState.FINISHED: frozenset(),
}


class StatusError(ValueError):
    """Content that is not the status of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """The progress of a source; `lag` is in records, None if the source does not report it."""

    description: str
    rows: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The last batch, and all rows since the job was started; rates are in rows per second."""

    batch: int
    timestamp: str
    rows: int
    rows_since_start: int
    input_rate: float
    processed_rate: float
    duration_ms: int
    sources: tuple[SourceProgress, ...]
    watermark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of a job.

    Times are ms since 1970. `cause` is a sentence about a failure, `trace` Spark's text.
    """

    job: str
    state: JobState = JobState.UNASSIGNED
    since_ms: int = 0
    updated_ms: int = 0
    pid: int | None = None
    host: str | None = None
    query_id: str | None = None
    cause: str | None = None
    trace: str | None = None
    progress: JobProgress | None = None

    def moved(
        self, state: JobState, now_ms: int, *, cause: str | None = None, trace: str | None = None
    ) -> "JobStatus":
        assert state in MOVES[self.state], f"{self.job}: {self.state.value} to {state.value}"
        return replace(self, state=state, since_ms=now_ms, updated_ms=now_ms, cause=cause, trace=trace)

    def to_json(self) -> bytes:
        return json.dumps({**asdict(self), "state": self.state.value}, indent=2).encode() + b"\n"


def read_status(content: bytes) -> JobStatus:
    """Read a status that `to_json` wrote; StatusError."""
    try:
        fields: dict[str, Any] = json.loads(content)
        progress = fields.pop("progress")
        if progress is not None:
            sources = tuple(SourceProgress(**source) for source in progress.pop("sources"))
            progress = JobProgress(**progress, sources=sources)
        read = JobStatus(**{**fields, "state": JobState(fields["state"]), "progress": progress})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StatusError(f"is not a status of a job: {error}") from None
    numbers = (read.since_ms, read.updated_ms, 0 if read.pid is None else read.pid)
    if not isinstance(read.job, str) or not all(isinstance(one, int) for one in numbers):
        raise StatusError("is not a status of a job")
    return read


def read_progress(fields: Mapping[str, Any], before: JobProgress | None) -> JobProgress:
    """Read Spark's JSON of a query's progress; `before` has the rows of the batches before."""
    rows = int(fields.get("numInputRows") or 0)
    return JobProgress(
        batch=int(fields["batchId"]),
        timestamp=str(fields["timestamp"]),
        rows=rows,
        rows_since_start=rows + (0 if before is None else before.rows_since_start),
        input_rate=_rate(fields.get("inputRowsPerSecond")),
        processed_rate=_rate(fields.get("processedRowsPerSecond")),
        duration_ms=int((fields.get("durationMs") or {}).get("triggerExecution") or 0),
        sources=tuple(
            SourceProgress(
                description=str(source.get("description")),
                rows=int(source.get("numInputRows") or 0),
                lag=_lag(source),
            )
            for source in fields.get("sources") or ()
        ),
        watermark=(fields.get("eventTime") or {}).get("watermark"),
    )


def _rate(value: object) -> float:
    """Return a rate, or 0 if no time has passed: then Spark omits it, or writes NaN or Infinity."""
    rate = float(value) if isinstance(value, int | float) else 0.0
    return round(rate, 1) if 0 <= rate < float("inf") else 0.0


def _lag(source: Mapping[str, Any]) -> int | None:
    try:
        lag = lag_of_source(source)
    except OptionError:  # offsets of another format
        return None
    return None if lag is None else lag.total


def cause_of(trace: str) -> str:
    """Return the most useful sentence of a trace: its last Python error, or else its first line."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    if lines and lines[0].startswith(
        "An error occurred while calling "
    ):  # Py4J's text; the error is below it
        lines = [line.removeprefix(": ") for line in lines[1:]]
    in_python = False
    cause = lines[0] if lines else "the cause is unknown"
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            in_python = True
        elif in_python and not line.startswith(("File ", "^", "~")) and not _is_code(lines, number):
            cause, in_python = line, False
    cause = _JAVA_CLASS.sub("", cause)
    return cause if len(cause) <= MAX_CAUSE_CHARS else cause[:MAX_CAUSE_CHARS] + "…"


def _is_code(lines: list[str], number: int) -> bool:
    """Return True for a line of source in a Python traceback, which follows the line of its file."""
    return number > 0 and lines[number - 1].startswith("File ")
