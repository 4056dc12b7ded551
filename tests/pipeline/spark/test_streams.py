"""The jobs of `examples/flights` over some days of flights: they write what pandas computes from them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.jobs.job import Flow, JobFile
from ottla.pipeline.jobs.job_reader import read_job_file
from ottla.pipeline.streams.state import STREAK_STATE, read_state
from ottla.pipeline.streams.table import latest
from tests.pipeline.spark import flights_in_pandas
from tests.pipeline.spark.job_runs import run_jobs
from tests.pipeline.spark.new_york import LATER, airports, flights_as_sent, to_values, weather_as_sent
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import delete_topic, fill_keys

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights" / "flights.yaml"
BATCH = 900
TIMEOUT_S = 60.0
FLIGHT = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance", "air_time")
FLIGHT_COLUMNS = (*FLIGHT, "hour", "minute", "time_hour")
RENAMED = {"faa": "ORD", "name": "O'Hare", "tzone": "America/Chicago", "lat": 41.9, "lon": -87.9}
CLOSED = "MIA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The example after its run: its input, and the rows that each job has written."""

    flights: pd.DataFrame
    weather: pd.DataFrame
    written: Mapping[str, pd.DataFrame]  # by topic
    file: JobFile
    bootstrap: str

    def checkpoint(self, job: str) -> str:
        return next(one.query.checkpoint for one in self.file.jobs if one.name == job)


@pytest.fixture(scope="module")
def ran(spark: SparkSession, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Run all jobs of the example over topics that were loaded for them, with smaller batches."""
    text = EXAMPLE.read_text()
    assert text.count('"50000"') == 2
    text = text.replace('"50000"', f'"{BATCH}"').replace("name: flights", f"name: f-{uuid4().hex}", 1)
    path = tmp_path_factory.mktemp("flights") / "flights.yaml"
    path.write_text(text)
    file = read_job_file(path, {"OTTLA_BOOTSTRAP": bootstrap})
    outputs = [job.work.sink.options["topic"] for job in file.jobs if isinstance(job.work, Flow)]
    flights, weather = flights_as_sent(), weather_as_sent()
    topics = ["flights", "weather", "airports", *outputs]
    make_topics(bootstrap, topics)
    try:
        send_flights(bootstrap, flights[:-LATER])
        values = to_values(weather, weather.columns)
        fill_keys(bootstrap, "weather", list(zip(weather["origin"], values, strict=True)))
        there = airports()
        values = to_values(there, there.columns)
        fill_keys(bootstrap, "airports", list(zip(there["faa"], values, strict=True)))
        fill_keys(bootstrap, "airports", [(RENAMED["faa"], json.dumps(RENAMED).encode()), (CLOSED, None)])

        run_jobs(file, spark, *(job.name for job in file.jobs))

        written = {topic: rows_of(bootstrap, topic) for topic in outputs}
        yield Ran(flights=flights, weather=weather, written=written, file=file, bootstrap=bootstrap)
    finally:
        for topic in topics:
            delete_topic(bootstrap, topic)


def make_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Create topics of one partition, so that batches are known; those that are tables are compacted."""
    tables = {"airports", "delays-by-day"}
    new = [
        NewTopic(
            name,
            num_partitions=1,
            replication_factor=1,
            config={"cleanup.policy": "compact" if name in tables else "delete", "retention.ms": "-1"},
        )
        for name in names
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(new).values():
        made.result(TIMEOUT_S)


def send_flights(bootstrap: str, flights: pd.DataFrame) -> None:
    values = to_values(flights, FLIGHT_COLUMNS)
    fill_keys(bootstrap, "flights", list(zip(flights["carrier"], values, strict=True)))


def rows_of(bootstrap: str, topic: str) -> pd.DataFrame:
    """Return the values of a topic's records, times as times."""
    rows = pd.DataFrame([json.loads(one.value()) for one in read_topic(bootstrap, topic)])
    for name in rows.columns:
        if name.endswith(("_at", "_start", "_end", "_hour")):
            rows[name] = pd.to_datetime(rows[name])
    return rows


def assert_same(found: pd.DataFrame, expected: pd.DataFrame, by: Sequence[str]) -> None:
    """Assert that the rows are equal in any order, in the columns that were found."""
    assert len(expected) > 0
    sides = []
    for frame in (found, expected):
        side = frame[list(found.columns)].sort_values(list(by)).reset_index(drop=True)
        for name in side.columns:
            if isinstance(side[name].dtype, pd.DatetimeTZDtype):
                side[name] = side[name].dt.tz_convert("UTC").astype("datetime64[us, UTC]")
            elif pd.api.types.is_numeric_dtype(side[name].dtype):
                side[name] = side[name].astype("float64")
            else:
                side[name] = side[name].astype(object).where(side[name].notna(), None)
        sides.append(side)
    pd.testing.assert_frame_equal(*sides)


def first(ran: Ran) -> pd.DataFrame:
    """Return the flights of the first run."""
    return ran.flights[:-LATER]


def test_windows_are_returned_once_when_they_are_over_and_late_rows_are_in_none(ran: Ran) -> None:
    flights = first(ran)

    counted = flights_in_pandas.in_windows(flights, "h", "2h", "carrier", ["dep_delay"], BATCH)

    assert 0 < counted["count"].sum() < len(flights), "some flights came too late"
    assert 0 < counted["is_over"].sum() < len(counted), "some windows are not over"
    assert_same(ran.written["delays-by-hour"], counted[counted["is_over"]], ["carrier", "window_start"])


def test_windows_that_change_are_the_table_of_a_compacted_topic(spark: SparkSession, ran: Ran) -> None:
    sums = ["dep_delay", "distance"]
    counted = flights_in_pandas.in_windows(first(ran), "D", "2D", "origin", sums, BATCH)
    records = read(spark, ran.bootstrap, "delays-by-day")

    table = pd.DataFrame([json.loads(row.value) for row in latest(records).collect()])

    assert len(table) < len(ran.written["delays-by-day"]), "some windows were written more than once"
    for name in ("window_start", "window_end"):
        table[name] = pd.to_datetime(table[name])
    assert_same(table, counted, ["origin", "window_start"])


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return spark.read.format("ottla").options(**options, **{"kafka.isolation.level": "read_committed"}).load()


def with_table(flights: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    return flights.merge(there.add_prefix("dest_"), how="left", left_on="dest", right_on="dest_faa")


def test_a_stream_is_joined_with_the_latest_record_of_each_key(ran: Ran) -> None:
    there = airports().set_index("faa").drop(CLOSED)
    there.loc[RENAMED["faa"]] = [RENAMED[name] for name in there.columns]

    expected = with_table(first(ran), there.reset_index())

    assert expected[expected["dest"] == RENAMED["faa"]]["dest_name"].unique() == [RENAMED["name"]]
    assert expected[expected["dest"] == CLOSED]["dest_name"].isna().all()
    assert_same(
        ran.written["flights-with-airports"], expected, ["scheduled_at", "carrier", "flight", "dep_delay"]
    )


def test_two_streams_are_joined_within_a_time_and_rows_without_a_partner_are_kept(ran: Ran) -> None:
    expected = flights_in_pandas.with_weather(first(ran), ran.weather, "6h", BATCH)

    assert 0 < expected["weather_temp"].isna().sum() < len(expected)
    assert len(expected) < first(ran)["dep_delay"].notna().sum(), "some flights came too late"
    by = ["scheduled_at", "carrier", "flight", "dep_delay"]
    assert_same(ran.written["flights-with-weather"], expected, by)


def test_a_row_that_came_twice_is_there_once(ran: Ran) -> None:
    key = ["carrier", "flight", "origin", "scheduled_at"]

    expected = flights_in_pandas.once(first(ran), key, "6h", BATCH)

    assert len(expected) < len(first(ran).drop_duplicates(key)) < len(first(ran))
    assert_same(ran.written["flights-each-once"], expected, ["record_offset"])


def test_sessions_end_with_a_pause(ran: Ran) -> None:
    by = ["carrier", "origin"]

    expected = flights_in_pandas.sessions(first(ran), by, ["dep_delay"], "1h", "1h", BATCH)

    assert_same(ran.written["departure-waves"], expected, [*by, "session_start"])


def test_user_defined_state_can_be_read(spark: SparkSession, ran: Ran) -> None:
    rows_of_pandas, known = flights_in_pandas.streaks(first(ran), 30, 3)

    rows = ran.written["late-planes"][["key", "at", "value", "streak"]].values.tolist()
    state = read_state(spark, ran.checkpoint("late-planes"), variable=STREAK_STATE).collect()

    assert sorted(map(tuple, rows)) == sorted(rows_of_pandas)
    assert len(rows_of_pandas) > 0
    assert {row["key"]: (row["rows"], row["over"], row["streak"]) for row in state} == known


def test_a_second_run_continues_with_the_state_and_with_the_present_table(
    spark: SparkSession, ran: Ran
) -> None:
    later = ran.flights[-LATER:]
    named = {**RENAMED, "name": "Orchard Field"}
    fill_keys(ran.bootstrap, "airports", [(RENAMED["faa"], json.dumps(named).encode())])
    send_flights(ran.bootstrap, later)

    run_jobs(ran.file, spark, "late-planes", "with-airports")

    rows_of_pandas, known = flights_in_pandas.streaks(ran.flights, 30, 3)
    rows = rows_of(ran.bootstrap, "late-planes")[["key", "at", "value", "streak"]].values.tolist()
    assert sorted(map(tuple, rows)) == sorted(rows_of_pandas)
    state = read_state(spark, ran.checkpoint("late-planes"), variable=STREAK_STATE).collect()
    assert {row["key"]: (row["rows"], row["over"], row["streak"]) for row in state} == known
    joined = rows_of(ran.bootstrap, "flights-with-airports")
    assert len(joined) == len(ran.flights)
    names = joined[joined["dest"] == RENAMED["faa"]]["dest_name"].tolist()
    count = (first(ran)["dest"] == RENAMED["faa"]).sum()
    assert names == [RENAMED["name"]] * count + ["Orchard Field"] * (later["dest"] == RENAMED["faa"]).sum()
