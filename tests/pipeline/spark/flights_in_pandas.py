"""The jobs of `examples/flights` in pandas: their expected results for rows in order of arrival."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tests.pipeline.spark.watermarks import watermarks, watermarks_of


def in_windows(
    rows: pd.DataFrame, window: str, delay: str, by: str, sums: Sequence[str], batch: int
) -> pd.DataFrame:
    """Count and sum by window, without rows that came after the end of their window; `is_over` at the end."""
    marks = watermarks(rows["scheduled_at"], batch, delay)
    start = rows["scheduled_at"].dt.floor(window)
    length = pd.Timedelta(1, unit=window)
    in_time = rows.assign(window_start=start)[start + length > marks.late]
    counted = summed(in_time, [by, "window_start"], sums)
    counted["window_end"] = counted["window_start"] + length
    counted["is_over"] = counted["window_end"] <= marks.last
    return counted


def once(rows: pd.DataFrame, key: list[str], delay: str, batch: int) -> pd.DataFrame:
    """Return the first of the rows with equal keys, among those that are not late."""
    in_time = rows[rows["scheduled_at"] > watermarks(rows["scheduled_at"], batch, delay).late]
    return in_time.drop_duplicates(key)


def with_weather(flights: pd.DataFrame, weather: pd.DataFrame, delay: str, batch: int) -> pd.DataFrame:
    """Join flights that were not cancelled and not late with the weather of their hour, if there is any."""
    flown = flights["dep_delay"].notna()
    times = flights["scheduled_at"].where(flown)
    marks = watermarks_of([(times, delay), (weather["time_hour"], delay)], batch)[0]
    in_time = flights[flown & (flights["scheduled_at"] > marks.late)]
    there = weather.add_prefix("weather_").rename(columns={"weather_origin": "origin"})
    hours = in_time.assign(weather_time_hour=in_time["scheduled_at"].dt.floor("h"))
    joined = hours.merge(there, how="left", on=["origin", "weather_time_hour"])
    alone = joined["weather_temp"].isna()
    assert (joined[alone]["scheduled_at"] < marks.last).all(), "all of them are known to be alone"
    joined["weather_time_hour"] = joined["weather_time_hour"].where(~alone)
    return joined


def sessions(
    rows: pd.DataFrame, by: list[str], sums: Sequence[str], gap: str, delay: str, batch: int
) -> pd.DataFrame:
    """Return sessions that are over, batch by batch: one that was over when a row came does not take it."""
    pause = pd.Timedelta(gap)
    marks = watermarks(rows["departed_at"], batch, delay)
    open_rows = rows.iloc[:0]
    found = []
    for number, over in enumerate(marks.of_batch):
        new = rows.iloc[number * batch : (number + 1) * batch]
        new = new[new["departed_at"] + pause > marks.late.reindex(new.index)]
        known = pd.concat([open_rows, new]).sort_values([*by, "departed_at"])
        since = known.groupby(by)["departed_at"].diff()
        known["session"] = (since.isna() | (since > pause)).cumsum()
        ends = known.groupby("session")["departed_at"].transform("max") + pause
        done = known[ends <= over]
        open_rows = known[ends > over].drop(columns="session")
        counted = summed(done, [*by, "session"], sums)
        times = done.groupby([*by, "session"])["departed_at"].agg(["min", "max"]).reset_index()
        counted["session_start"], counted["session_end"] = times["min"], times["max"]
        found.append(counted.drop(columns="session"))
    return pd.concat(found, ignore_index=True)


def streaks(
    rows: pd.DataFrame, over: int, length: int
) -> tuple[list[tuple[Any, ...]], dict[str, tuple[int, int, int]]]:
    """Return (key, at, value, streak) of each row that makes a streak, and the final state of each key."""
    rows_of_streaks, known = [], {}
    for row in rows[["tailnum", "record_offset", "dep_delay"]].dropna().itertuples():
        seen, late, streak = known.get(row.tailnum, (0, 0, 0))
        streak = streak + 1 if row.dep_delay > over else 0
        known[row.tailnum] = (seen + 1, late + (streak > 0), streak)
        if streak >= length:
            rows_of_streaks.append((row.tailnum, row.record_offset, row.dep_delay, streak))
    return rows_of_streaks, known


def summed(rows: pd.DataFrame, by: list[str], sums: Sequence[str]) -> pd.DataFrame:
    """Return counts, and sums that are null if all values are null."""
    groups = rows.groupby(by)
    counted = groups.size().rename("count").to_frame()
    for name in sums:
        counted[f"sum_{name}"] = groups[name].sum(min_count=1)
    return counted.reset_index()
