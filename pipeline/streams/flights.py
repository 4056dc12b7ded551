"""The flights of `scripts/demo`: every flight that left New York in 2013, one JSON record each, and what
`examples/flights` does with two sources.

The records' own times are those of their sending; a flight's time is in its value.
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
    """The flights, with `scheduled_at`, and `departed_at` which is null for those that were cancelled;
    `record_offset` tells their order in a partition. Delays are in minutes, before time below zero."""
    rows = parse(records, schema=SCHEMA, keep="offset")
    scheduled_at = F.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)")
    departed_at = F.expr("scheduled_at + make_interval(0, 0, 0, 0, 0, dep_delay)")
    return rows.withColumn("scheduled_at", scheduled_at).withColumn("departed_at", departed_at)


def parse_airports(records: DataFrame) -> DataFrame:
    """The airports there are, by `faa`, the code that flights have as `dest`."""
    return parse(records, schema=AIRPORT_SCHEMA)


def parse_weather(records: DataFrame) -> DataFrame:
    """What the weather was at an `origin` in the hour from `time_hour` on."""
    return parse(records, schema=WEATHER_SCHEMA)


def with_airports(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Each flight with the airport that it goes to, by the table that the topic of airports is; nulls where
    there is none. Arguments are the records of both."""
    rows = parse_flights(flights).select("carrier", "flight", "origin", "dest", "scheduled_at", "dep_delay")
    there = parse_airports(table.latest(airports)).select("faa", "name", "tzone")
    joined = joins.with_table(rows, there, key="dest", table_key="faa", prefix="dest_")
    return joined.drop("dest_faa")


def delays_by_hour(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Departures and the sum of their delays by carrier, hour, and the time zone of where they go to, by the
    table that the topic of airports is. Arguments are the records of both; for output mode `update`."""
    rows = parse_flights(flights).where("dep_delay IS NOT NULL")
    there = parse_airports(table.latest(airports)).select("faa", "tzone")
    joined = joins.with_table(rows, there, key="dest", table_key="faa", prefix="dest_")
    # A topic keyed by carrier has partitions that are weeks apart when read side by side: some airlines fly
    # more in summer.
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
    """Each flight that was not cancelled with the weather at its airport in the hour in which it was to
    leave; nulls where none was reported. Arguments are the records of both streams."""
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
