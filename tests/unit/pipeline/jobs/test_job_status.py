"""States, progress and causes of jobs; a status is read as it was written."""

import json

import pytest

from ottla.pipeline.jobs.job_status import (
    MOVES,
    JobProgress,
    JobState,
    JobStatus,
    SourceProgress,
    StatusError,
    cause_of,
    read_progress,
    read_status,
)
from ottla.pipeline.jobs.status_table import as_table

PROGRESS = JobProgress(
    batch=7,
    timestamp="2026-11-22T05:17:46.832Z",
    rows=10,
    rows_since_start=80,
    input_rate=5.0,
    processed_rate=4.6,
    duration_ms=2196,
    sources=(
        SourceProgress(description="orders", rows=10, lag=3),
        SourceProgress(description="x", rows=0, lag=None),
    ),
)
RUNNING = JobStatus(
    job="totals",
    state=JobState.RUNNING,
    since_ms=1,
    updated_ms=2,
    pid=3,
    host="h",
    query_id="q",
    progress=PROGRESS,
)


@pytest.mark.parametrize("status", [RUNNING, JobStatus(job="a")])
def test_a_status_is_read_as_it_was_written(status: JobStatus) -> None:
    assert read_status(status.to_json()) == status


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"1" * 5000,
        json.dumps({**json.loads(RUNNING.to_json()), "pid": "x"}).encode(),
        RUNNING.to_json().replace(b'"RUNNING"', b'"HAPPY"'),
    ],
)
def test_an_invalid_status_is_refused(content: bytes) -> None:
    with pytest.raises(StatusError):
        read_status(content)


@pytest.mark.parametrize("before", list(JobState))
@pytest.mark.parametrize("after", list(JobState))
def test_states_move_as_the_table_says(before: JobState, after: JobState) -> None:
    status = JobStatus(job="a", state=before)

    if after in MOVES[before]:
        assert status.moved(after, 5).state is after
    else:
        with pytest.raises(AssertionError):
            status.moved(after, 5)


def test_progress_counts_rows_since_the_start_and_the_lag_of_each_source() -> None:
    fields = {
        "batchId": 8,
        "timestamp": "t",
        "numInputRows": 4,
        "inputRowsPerSecond": float("nan"),
        "processedRowsPerSecond": 12.34,
        "durationMs": {"triggerExecution": 21},
        "eventTime": {"watermark": "w"},
        "sources": [
            {
                "description": "ours",
                "numInputRows": 4,
                "endOffset": '{"orders": {"0": 5, "1": 2}}',
                "latestOffset": '{"orders": {"0": 6, "1": 12}}',
            },
            {"description": "another", "numInputRows": 0, "endOffset": "17", "latestOffset": None},
            {
                "description": "files",
                "numInputRows": 0,
                "endOffset": '{"logOffset": 1}',
                "latestOffset": "{}",
            },
        ],
    }

    progress = read_progress(fields, PROGRESS)

    assert (progress.rows, progress.rows_since_start, progress.input_rate, progress.processed_rate) == (
        4,
        84,
        0,
        12.3,
    )
    assert [source.lag for source in progress.sources] == [11, None, None]
    assert (progress.duration_ms, progress.watermark) == (21, "w")


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        ("", "the cause is unknown"),
        ("[A] one\ntwo", "[A] one"),
        ("org.apache.spark.SparkException: [X] no\n\tat org.apache", "[X] no"),
        (
            "[PYTHON] failed: Traceback (most recent call last):\nTraceback (most recent call last):\n"
            '  File "/a.py", line 1, in f\n    raise OptionError("a")\n    ^^^^^\n'
            "ottla.pipeline.words.OptionError: topic: is missing\n\n\tat org.apache.spark",
            "topic: is missing",
        ),
        (
            "An error occurred while calling o53.start.\n: org.apache.X: [D] not found\n\tat a",
            "[D] not found",
        ),
        ("y" * 1000, "y" * 400 + "…"),
    ],
)
def test_the_cause_is_the_most_useful_sentence(trace: str, cause: str) -> None:
    assert cause_of(trace) == cause


def test_the_table_has_a_line_for_each_job_and_the_cause_of_a_failure() -> None:
    failed = JobStatus(job="b", state=JobState.FAILED, since_ms=0, cause="it broke")

    lines = as_table([RUNNING, failed]).splitlines()

    assert lines[0].split() == ["JOB", "STATE", "SINCE", "BATCH", "ROWS", "ROWS/S", "LAG", "UPDATED"]
    assert lines[1].split() == [
        "totals",
        "RUNNING",
        "1970-01-01T00:00:00Z",
        "7",
        "80",
        "4.6",
        "3",
        "1970-01-01T00:00:00Z",
    ]
    assert lines[2].split()[:3] == ["b", "FAILED", "-"]
    assert lines[3] == "b: it broke"
