"""Prints statuses as a table."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ottla.logstore.words.escaped_text import escape_controls
from ottla.pipeline.jobs.job_status import JobState, JobStatus

HEADS = ("JOB", "STATE", "SINCE", "BATCH", "ROWS", "ROWS/S", "LAG", "UPDATED")


def as_table(statuses: Sequence[JobStatus]) -> str:
    """Return a line per job with the numbers of its last batch, and below them the causes of failures."""
    rows = [HEADS, *(_cells(status) for status in statuses)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += [
        f"{one.job}: {escape_controls(str(one.cause), keeps_lines=True)}"
        for one in statuses
        if one.state is JobState.FAILED
    ]
    return "\n".join(lines)


def _cells(status: JobStatus) -> tuple[str, ...]:
    progress = status.progress
    since = _moment(status.since_ms) if status.since_ms else "-"
    if progress is None:
        return (status.job, status.state.value, since, "-", "-", "-", "-", "-")
    lags = [source.lag for source in progress.sources if source.lag is not None]
    return (
        status.job,
        status.state.value,
        since,
        str(progress.batch),
        str(progress.rows_since_start),
        f"{progress.processed_rate:g}",
        str(sum(lags)) if lags else "-",
        _moment(status.updated_ms),
    )


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
