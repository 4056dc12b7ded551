"""The flights of `scripts/demo`, and the jobs of `examples/flights` over two sources.

They are all flights that left New York in 2013, one JSON record each. The timestamps of records are those of
their sending; the time of a flight is in its value.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.streams import joins, table, windows
from ottla.pipeline.streams.json_records import parse

SCHEMA: Final = """
    carrier STRING, flight LONG, tailnum STRING, origin STRING, dest STRING, dep_delay LONG, arr_delay LONG,
    distance LONG, air_time LONG, hour LONG, minute LONG, time_hour TIMESTAMP
"""
AIRPORT_SCHEMA: Final = "faa STRING, name STRING, tzone STRING, lat DOUBLE, lon DOUBLE"
WEATHER_SCHEMA: Final = "origin STRING, time_hour TIMESTAMP, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE"


def parse_flights(records: DataFrame) -> DataFrame:
    """Return the flights, with `scheduled_at` and `departed_at`, which is null if the flight was cancelled.

    `record_offset` is their order in a partition. Delays are in minutes, early departures below zero.
    """
    rows = parse(records, schema=SCHEMA, keep="offset")
    scheduled_at = F.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)")
    departed_at = F.expr("scheduled_at + make_interval(0, 0, 0, 0, 0, dep_delay)")
    return rows.withColumn("scheduled_at", scheduled_at).withColumn("departed_at", departed_at)


def parse_airports(records: DataFrame) -> DataFrame:
    """Return the airports by `faa`, the code that flights have as `dest`."""
    return parse(records, schema=AIRPORT_SCHEMA)


def parse_weather(records: DataFrame) -> DataFrame:
    """Return the weather at an `origin` in the hour that begins at `time_hour`."""
    return parse(records, schema=WEATHER_SCHEMA)


def with_airports(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Join each flight with its destination, from the table in the topic of airports.

    Its columns are null if the table lacks it. The arguments are the records of both.
    """
    rows = parse_flights(flights).select("carrier", "flight", "origin", "dest", "scheduled_at", "dep_delay")
    there = parse_airports(table.latest(airports)).select("faa", "name", "tzone")
    joined = joins.with_table(rows, there, key="dest", table_key="faa", prefix="dest_")
    return joined.drop("dest_faa")


def delays_by_hour(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Sum departures and their delays by carrier, hour, and time zone of the destination.

    The airports are the table in their topic. The arguments are the records of both; for output mode
    `update`.
    """
    rows = parse_flights(flights).where("dep_delay IS NOT NULL")
    there = parse_airports(table.latest(airports)).select("faa", "tzone")
    joined = joins.with_table(rows, there, key="dest", table_key="faa", prefix="dest_")
    # In a topic keyed by carrier, partitions read side by side are weeks apart: some airlines fly more in
    # summer.
    counted = windows.count_and_sum(
        joined,
        time="scheduled_at",
        watermark="60 days",
        window="1 hour",
        by="carrier, dest_tzone",
        sums="dep_delay",
    )
    return counted.drop("window_end")


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Join each flight that was not cancelled with the weather at its airport in the hour of its departure.

    Its columns are null if no weather was reported. The arguments are the records of both streams.
    """
    rows = parse_flights(flights).select("carrier", "flight", "origin", "scheduled_at", "dep_delay")
    joined = joins.within(
        rows.where("dep_delay IS NOT NULL"),
        parse_weather(weather),
        key="origin",
        left_time="scheduled_at",
        right_time="time_hour",
        before="59 minutes",
        after="0 minutes",
        left_watermark="6 hours",
        right_watermark="6 hours",
        prefix="weather_",
        kind="left",
    )
    return joined.drop("weather_origin")
