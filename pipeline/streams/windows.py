"""Counts and sums by windows of time.

A window is over when the watermark has passed its end; the watermark is the latest time among the rows of the
batches before, less a delay. In output mode `append` a window is returned once, when it is over; in `update`
at each change, which a compacted topic turns into a table. Rows of a window that is over are dropped, and
counted by Spark (`numRowsDroppedByWatermark` of a query's progress).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.row_texts import column, quoted
from ottla.pipeline.streams.arguments import interval_of, name_of, names_of, refuse_existing_columns


def count_and_sum(
    rows: DataFrame, *, time: str, watermark: str, window: str, slide: str = "", by: str = "", sums: str = ""
) -> DataFrame:
    """Return `window_start`, `window_end`, the columns `by`, `count` of rows, and `sum_X` of each in `sums`.

    `time` is the column with a row's time; rows with a null in it are in no window. `watermark`, `window` and
    `slide` are times such as `10 minutes`. With `slide` windows overlap; otherwise each row is in one.
    Windows begin at multiples of `slide` since 1970 in UTC. A sum ignores nulls; the sum of only nulls is
    null.
    """
    keys = names_of(by, "by", rows.columns, may_be_empty=True)
    summed = names_of(sums, "sums", rows.columns, may_be_empty=True)
    refuse_existing_columns(
        ["window_start", "window_end", "count", *[f"sum_{name}" for name in summed]], "by", keys
    )
    at = name_of(time, "time", rows.columns)
    length = interval_of(window, "window")
    step = interval_of(slide, "slide") if slide else length
    marked = rows.withWatermark(quoted(at), interval_of(watermark, "watermark", may_be_zero=True))
    groups = marked.groupBy(*map(column, keys), F.window(column(at), length, step))
    counted = groups.agg(
        F.count(F.lit(1)).alias("count"), *[F.sum(column(name)).alias(f"sum_{name}") for name in summed]
    )
    start, end = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return counted.select(
        start, end, *map(column, keys), "count", *[column(f"sum_{name}") for name in summed]
    )
