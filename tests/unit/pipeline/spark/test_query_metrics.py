"""Metrics of queries for a Prometheus, from the progress that Spark reports."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import Row

from ottla.pipeline.spark.query_metrics import QueryMetrics

AT_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
OBSERVED = {"records": 30, "bytes": 900, "oldest_ms": AT_MS - 4_000, "newest_ms": AT_MS}


def progress(batch: int = 7, **changed: Any) -> dict[str, Any]:
    """Return Spark's JSON of a batch of thirty records; 5 are left in partition 0 and none in partition 1."""
    return {
        "id": "f00d",
        "runId": "run-1",
        "name": "flights",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "numInputRows": 30,
        "durationMs": {"addBatch": 900, "triggerExecution": 1_500},
        "sources": [source({"0": 10, "1": 20}, {"0": 15, "1": 20})],
        "observedMetrics": {},
        **changed,
    }


def source(read: dict[str, int], latest: dict[str, int]) -> dict[str, Any]:
    return {"endOffset": {"flights": read}, "latestOffset": {"flights": latest}}


def values(metrics: QueryMetrics, now_ms: int = AT_MS) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels, as a Prometheus reads the text."""
    return {
        (sample.name.removeprefix("ottla_spark_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text(now_ms))
        for sample in family.samples
    }


def metrics_of(*all_progress: dict[str, Any]) -> QueryMetrics:
    metrics = QueryMetrics()
    for one in all_progress:
        metrics.progressed(one, AT_MS)
    return metrics


def test_lag_of_each_partition_is_reported_in_records_and_in_seconds() -> None:
    found = values(metrics_of(progress()), AT_MS + 3_000)

    assert found["source_lag_records", "flights", "0", "flights", "0"] == 5
    assert found["source_lag_records", "flights", "0", "flights", "1"] == 0
    assert found["source_lag_seconds", "flights", "0", "flights", "0"] == 3
    assert found["source_lag_seconds", "flights", "0", "flights", "1"] == 0
    assert found["query_progress_age_seconds", "flights"] == 3


def test_batches_are_counted_and_triggers_without_one_are_not() -> None:
    idle = progress(9, numInputRows=0, durationMs={"latestOffset": 3, "triggerExecution": 4})

    found = values(metrics_of(progress(7), progress(8, numInputRows=12), idle))

    assert found["query_batch", "flights"] == 8
    assert found["query_batch_records", "flights"] == 12
    assert found["query_records_total", "flights"] == 42
    assert found["query_batch_seconds", "flights"] == 1.5


def test_observed_frames_have_bytes_and_the_age_of_records() -> None:
    as_json = {"ottla": OBSERVED, "of the user": {"rows": 1}}
    # the form in which PySpark passes it to listeners
    as_rows = {"ottla": Row(**OBSERVED), "of the user": Row(rows=1)}

    found = values(metrics_of(progress(7, observedMetrics=as_json), progress(8, observedMetrics=as_rows)))

    assert found["query_batch_bytes", "flights"] == 900
    assert found["query_bytes_total", "flights"] == 1_800
    assert found["query_batch_oldest_record_seconds", "flights"] == 4


def test_an_observed_batch_without_records_has_no_age() -> None:
    empty = {"records": 0, "bytes": None, "oldest_ms": None, "newest_ms": None}

    found = values(metrics_of(progress(observedMetrics={"ottla": empty})))

    assert found["query_batch_bytes", "flights"] == 0
    assert ("query_batch_oldest_record_seconds", "flights") not in found


def test_partitions_that_are_gone_and_queries_that_ended_are_forgotten() -> None:
    metrics = metrics_of(progress(), progress(8, sources=[source({"1": 20}, {"1": 20})]))

    assert ("source_lag_records", "flights", "0", "flights", "0") not in values(metrics)

    metrics.ended("run-1")
    assert metrics.text(AT_MS) == ""


def test_a_query_without_a_batch_reports_the_time_since_it_began() -> None:
    metrics = QueryMetrics()
    metrics.started("run-1", "flights", AT_MS)

    assert values(metrics, AT_MS + 60_000) == {("query_progress_age_seconds", "flights"): 60}

    metrics.idled("run-1", AT_MS + 50_000)
    assert values(metrics, AT_MS + 60_000) == {("query_progress_age_seconds", "flights"): 10}


def test_a_new_run_replaces_one_whose_end_was_not_reported() -> None:
    found = values(metrics_of(progress(), progress(8, runId="run-2", numInputRows=1)))

    assert found["query_records_total", "flights"] == 1


def test_other_sources_and_queries_without_a_name_have_the_metrics_that_apply() -> None:
    other = {"endOffset": 3, "latestOffset": 4}

    found = values(metrics_of(progress(name=None, sources=[other, source({"0": 1}, {"0": 3})])))

    assert found["source_lag_records", "f00d", "1", "flights", "0"] == 2
    assert len([key for key in found if key[0].startswith("source_lag")]) == 2


def test_names_are_written_as_a_prometheus_reads_them() -> None:
    name = 'a "quoted" \\ name\nin two lines'

    assert ("query_batch", name) in values(metrics_of(progress(name=name)))
