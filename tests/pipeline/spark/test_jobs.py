"""Jobs of a file: they run side by side, each fails alone, and their statuses are true."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.jobs.job_reader import read_job_file
from ottla.pipeline.jobs.job_status import JobState, JobStatus
from ottla.pipeline.jobs.runner import JobRun, run
from ottla.pipeline.jobs.status_files import find_status
from ottla.pipeline.spark.query_metrics import QueryMetrics
from tests.pipeline.spark.job_runs import write_jobs
from tests.pipeline.topics import fill, make_topic

ROOT = Path(__file__).parents[3]
STATES = {state.value: state for state in JobState}


def states(statuses: tuple[JobStatus, ...]) -> dict[str, str]:
    return {status.job: status.state.value for status in statuses}


def test_jobs_run_side_by_side_and_one_that_fails_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders").mkdir()
    lines = [json.dumps({"id": number % 2, "apples": number}) for number in range(10)]
    (tmp_path / "orders" / "a.json").write_text("\n".join(lines))
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "a.csv").write_text("0,anna\n1,bert\n")
    (tmp_path / "pipeline.py").write_text(
        "def join(orders, names, least):\n"
        "    return orders.where(f'apples >= {least}').join(names, 'id').select('name', 'apples')\n"
    )
    (tmp_path / "shout.sql").write_text("SELECT upper(name) AS name, apples FROM joined")
    monkeypatch.syspath_prepend(tmp_path)
    path = write_jobs(
        tmp_path,
        f"""
        name: shop
        storage: state
        configuration: {{spark.sql.session.timeZone: Asia/Tokyo}}
        jobs:
          joined:
            sources:
              orders: {{format: json, path: {tmp_path}/orders, schema: "id long, apples long"}}
              names: {{format: csv, path: {tmp_path}/names, schema: "id long, name string", static: true}}
            transform:
              - {{python: "pipeline:join", arguments: {{least: 8}}, as: joined}}
              - {{sqlFile: shout.sql}}
              - {{sql: "SELECT *, current_timezone() AS zone FROM previous"}}
            sink: {{format: json, path: {tmp_path}/out}}
            trigger: {{availableNow: true}}
          wrong:
            source: {{format: rate}}
            transform: [{{sql: SELECT nothing FROM source}}]
            sink: {{format: noop}}
        """,
    )

    statuses = run(read_job_file(path), session=spark)

    assert states(statuses) == {"joined": "FINISHED", "wrong": "FAILED"}
    assert statuses[1].cause is not None and "`nothing` cannot be resolved" in statuses[1].cause
    rows = sorted(
        tuple(row) for row in spark.read.json(f"{tmp_path}/out").select("name", "apples", "zone").collect()
    )
    assert rows == [("ANNA", 8, "Asia/Tokyo"), ("BERT", 9, "Asia/Tokyo")]
    written = find_status(tmp_path / "state", "joined")
    assert written == statuses[0]
    assert written.progress is not None and written.progress.batch == 0


def test_the_first_failure_stops_the_others_when_the_file_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_jobs(
        tmp_path,
        """
        name: shop
        storage: state
        onFailure: stop
        jobs:
          endless: {source: {format: rate}, sink: {format: noop}}
          breaks:
            source: {format: rate-micro-batch, rowsPerBatch: 5}
            transform: [{sql: SELECT raise_error('no more') FROM source}]
            sink: {format: noop}
        """,
    )

    statuses = run(read_job_file(path), session=spark)

    assert states(statuses) == {"endless": "STOPPED", "breaks": "FAILED"}
    assert statuses[1].cause is not None and "no more" in statuses[1].cause


def test_a_stop_waits_for_the_batch_and_the_next_run_continues_behind_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    path = write_jobs(
        tmp_path,
        f"""
        name: shop
        storage: state
        jobs:
          copy:
            source: {{format: json, path: {tmp_path}/in, schema: id long}}
            sink: {{format: json, path: {tmp_path}/out}}
        """,
    )

    def stop_after_a_batch(status: JobStatus) -> None:
        if status.state is JobState.RUNNING:
            stopped.stop()

    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.json").write_text(json.dumps({"id": name == "b"}))
        stopped = JobRun(read_job_file(path), session=spark, report=stop_after_a_batch)
        assert states(stopped.run()) == {"copy": "STOPPED"}
    finished = write_jobs(tmp_path, path.read_text() + "    trigger: {availableNow: true}\n")
    statuses = run(read_job_file(finished), session=spark)

    assert states(statuses) == {"copy": "FINISHED"}
    assert spark.read.json(f"{tmp_path}/out").count() == 2


def test_a_table_of_counts_is_kept_in_a_topic_exactly_once_and_its_jobs_have_metrics(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, totals, copy = (
        make_topic(bootstrap, partitions=2),
        make_topic(bootstrap),
        make_topic(bootstrap, partitions=2),
    )
    path = write_jobs(
        tmp_path,
        f"""
        name: {totals}
        storage: state
        jobs:
          totals:
            source:
              format: ottla
              kafka.bootstrap.servers: {bootstrap}
              subscribe: {orders}
              startingOffsets: earliest
            transform:
              - sql: SELECT value AS key, CAST(count(*) AS STRING) AS value FROM source GROUP BY value
            sink:
              format: ottla
              kafka.bootstrap.servers: {bootstrap}
              topic: {totals}
              delivery.guarantee: exactly_once
            outputMode: update
            trigger: {{availableNow: true}}
          copy:
            source:
              format: ottla
              kafka.bootstrap.servers: {bootstrap}
              subscribe: {orders}
              startingOffsets: earliest
            sink: {{format: ottla, kafka.bootstrap.servers: "{bootstrap}", topic: {copy}}}
            trigger: {{availableNow: true}}
        """,
    )

    measured: set[object] = set()
    monkeypatch.setattr(QueryMetrics, "progressed", lambda _, of, now_ms: measured.add(of["name"]))
    lags = []
    for values in ([b"anna", b"bert", b"anna"], [b"anna"]):
        fill(bootstrap, orders, values)
        for status in JobRun(read_job_file(path), session=spark, metrics=QueryMetrics()).run():
            assert (status.state, status.cause) == (JobState.FINISHED, None)
            assert status.progress is not None
            lags += [source.lag for source in status.progress.sources]
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", totals).option("kafka.isolation.level", "read_committed").load()
    assert reader.option("subscribe", copy).load().count() == 4
    records = [(bytes(row.key), bytes(row.value)) for row in rows.orderBy("offset").collect()]

    assert sorted(records[:2]) == [(b"anna", b"2"), (b"bert", b"1")] and records[2:] == [(b"anna", b"3")]
    assert lags == [0, 0, 0, 0]
    assert measured == {f"{totals}.totals", f"{totals}.copy"}
