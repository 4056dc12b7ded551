"""Removes duplicates of rows."""

from pyspark.sql import DataFrame

from ottla.pipeline.row_texts import quoted
from ottla.pipeline.streams.arguments import interval_of, name_of, names_of


def once(rows: DataFrame, *, key: str, time: str, watermark: str) -> DataFrame:
    """Return the first of all rows with the same values in the columns `key`.

    A row is remembered until the watermark (the latest `time` of the batches before, less `watermark`) has
    passed the row's time by `watermark`: that is how far apart in time duplicates may be. Rows before the
    watermark are dropped, as their duplicates are forgotten.
    """
    keys = names_of(key, "key", rows.columns)
    at = name_of(time, "time", rows.columns)
    marked = rows.withWatermark(quoted(at), interval_of(watermark, "watermark"))
    return marked.dropDuplicatesWithinWatermark(keys)
