"""Metrics of queries that read our source: lag of each partition, records and bytes of batches.

Spark takes no metrics from a source in Python. Lag is computed from the offsets in each progress; the bytes
of a batch are known for frames that `observed` has returned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.source.lag_time import KnownEnd, KnownEnds, waited_ms, with_end
from ottla.pipeline.source.progress import offsets_of_source
from ottla.pipeline.words import OptionError

OBSERVED: Final = "ottla"
_BATCH: Final = "Of the last batch: "
_FAMILIES: Final[tuple[tuple[str, str, str], ...]] = (
    ("query_batch", "gauge", "Number of the last batch."),
    ("query_batch_records", "gauge", _BATCH + "records that came from all sources."),
    ("query_records_total", "counter", "Records of all batches since the query began."),
    ("query_batch_seconds", "gauge", _BATCH + "how long it took."),
    ("query_batch_bytes", "gauge", _BATCH + "bytes of keys and values, of observed frames."),
    ("query_bytes_total", "counter", "Bytes of keys and values since the query began, of observed frames."),
    (
        "query_batch_oldest_record_seconds",
        "gauge",
        _BATCH + "age of its oldest record when the batch completed.",
    ),
    ("query_progress_age_seconds", "gauge", "Time since the last progress report of the query."),
    ("source_lag_records", "gauge", "Records between the read position and the end of the log."),
    ("source_lag_seconds", "gauge", "Estimate of how long the next record to read has been waiting."),
)


def observed(frame: DataFrame, name: str = OBSERVED) -> DataFrame:
    """Return the frame with the bytes and times of its records in each progress, as `observedMetrics`.

    It needs the source's columns key, value and timestamp. A query of two such frames needs two names.
    """
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    return frame.observe(
        name,
        F.count(F.lit(1)).alias("records"),
        F.sum(size).alias("bytes"),
        F.unix_millis(F.min("timestamp")).alias("oldest_ms"),
        F.unix_millis(F.max("timestamp")).alias("newest_ms"),
    )


@dataclass(slots=True)
class _Query:
    """The last known state of one query; a source is named by its index among the sources."""

    name: str
    progress_ms: int
    batch: int | None = None
    records: int = 0
    all_records: int = 0
    seconds: float = 0.0
    bytes: int | None = None
    all_bytes: int = 0
    oldest_s: float | None = None
    read: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    ends: dict[tuple[str, TopicPartition], KnownEnds] = field(default_factory=dict)


class QueryMetrics:
    """Queries by their run. Threads that start queries, Spark's listener and a scrape may call at once."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}
        self._write_lock = Lock()

    def started(self, run: str, name: str, now_ms: int) -> None:
        """Note that a query of this name runs. Until its first batch only the time since then is reported."""
        with self._write_lock:
            self._put(run, _Query(name=name, progress_ms=now_ms))

    def progressed(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """Read Spark's JSON of a query's progress, or PySpark's form of it."""
        with self._write_lock:
            run, name = str(progress["runId"]), str(progress.get("name") or progress["id"])
            known = self._queries.get(run) or _Query(name=name, progress_ms=now_ms)
            known.progress_ms = now_ms
            if "addBatch" in (progress.get("durationMs") or {}):  # otherwise there was nothing to do
                _take_batch(known, progress, now_ms)
            at_ms = _timestamp_ms(progress["timestamp"])
            for number, source in enumerate(progress.get("sources") or ()):
                _take_source(known, str(number), source, at_ms)
            self._put(run, known)

    def _put(self, run: str, query: _Query) -> None:
        # A new dictionary each time, so that a scrape can still iterate over the old one. The next run of a
        # name replaces one whose end was not reported.
        others = {one: other for one, other in self._queries.items() if other.name != query.name}
        self._queries = {**others, run: query}

    def idled(self, run: str, now_ms: int) -> None:
        """Note that a trigger of this run found nothing to do."""
        with self._write_lock:
            if run in self._queries:
                self._queries[run].progress_ms = now_ms

    def ended(self, run: str) -> None:
        """Forget a run."""
        with self._write_lock:
            self._queries = {one: query for one, query in self._queries.items() if one != run}

    def text(self, now_ms: int) -> str:
        """Return all metrics in the text format of Prometheus."""
        samples: dict[str, list[str]] = {name: [] for name, _, _ in _FAMILIES}
        for query in list(self._queries.values()):
            for name, labels, value in _samples(query, now_ms):
                labelled = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                samples[name].append(f"ottla_spark_{name}{{{labelled}}} {value:.15g}\n")
        written = []
        for name, kind, help_text in _FAMILIES:
            if samples[name]:
                head = f"# HELP ottla_spark_{name} {help_text}\n# TYPE ottla_spark_{name} {kind}\n"
                written += [head, *samples[name]]
        return "".join(written)


def _take_batch(query: _Query, progress: Mapping[str, Any], now_ms: int) -> None:
    query.batch = int(progress["batchId"])
    query.records = int(progress.get("numInputRows") or 0)
    query.all_records += query.records
    query.seconds = ((progress.get("durationMs") or {}).get("triggerExecution") or 0) / 1000
    observed_metrics = (progress.get("observedMetrics") or {}).values()
    metrics = [found for one in observed_metrics if (found := _pipeline_metrics(one)) is not None]
    query.bytes = sum(int(one["bytes"] or 0) for one in metrics) if metrics else None
    query.all_bytes += query.bytes or 0
    oldest = [int(one["oldest_ms"]) for one in metrics if one["oldest_ms"] is not None]
    query.oldest_s = max(now_ms - min(oldest), 0) / 1000 if oldest else None


def _pipeline_metrics(observed: object) -> Mapping[str, Any] | None:
    """Return the metrics of `observed`; None for observations of the user's own."""
    named = observed.asDict() if isinstance(observed, Row) else observed
    if isinstance(named, Mapping) and {"records", "bytes", "oldest_ms", "newest_ms"} <= set(named):
        return named
    return None


def _take_source(query: _Query, source: str, progress: Mapping[str, Any], at_ms: int) -> None:
    try:
        offsets = offsets_of_source(progress)
    except OptionError:  # offsets of another format
        return
    if offsets is None:
        return
    read, latest = offsets
    read_now = dict(query.read)
    ends_now = dict(query.ends)
    for partition in {partition for one, partition in query.read if one == source} - set(latest.offsets):
        del read_now[source, partition], ends_now[source, partition]  # it no longer exists
    for partition, end in latest.offsets.items():
        key = source, partition
        read_now[key] = read.offsets.get(partition, 0)
        seen = KnownEnd(at_ms=at_ms, end=end)
        ends_now[key] = with_end(query.ends.get(key, ()), seen, read_now[key])
    query.read, query.ends = read_now, ends_now


def _samples(query: _Query, now_ms: int) -> Iterator[tuple[str, dict[str, str], float]]:
    labels = {"query": query.name}
    if query.batch is not None:
        yield "query_batch", labels, query.batch
        yield "query_batch_records", labels, query.records
        yield "query_records_total", labels, query.all_records
        yield "query_batch_seconds", labels, query.seconds
    if query.bytes is not None:
        yield "query_batch_bytes", labels, query.bytes
        yield "query_bytes_total", labels, query.all_bytes
    if query.oldest_s is not None:
        yield "query_batch_oldest_record_seconds", labels, query.oldest_s
    yield "query_progress_age_seconds", labels, max(now_ms - query.progress_ms, 0) / 1000
    read, ends = query.read, query.ends
    for key in sorted(read.keys() & ends.keys()):
        source, partition = key
        partition_labels = {
            **labels,
            "source": source,
            "topic": partition.topic,
            "partition": str(partition.partition),
        }
        yield "source_lag_records", partition_labels, max(ends[key][-1].end - read[key], 0)
        yield "source_lag_seconds", partition_labels, waited_ms(ends[key], read[key], now_ms) / 1000


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _timestamp_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
