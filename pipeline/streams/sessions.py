"""Sessions: rows of a key with no pause between them that is longer than the gap."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.row_texts import column, quoted
from ottla.pipeline.streams.arguments import interval_of, name_of, names_of, refuse_existing_columns


def sessions(rows: DataFrame, *, time: str, watermark: str, gap: str, by: str, sums: str = "") -> DataFrame:
    """Return `session_start`, `session_end`, the columns `by`, `count`, and `sum_X` of each column in `sums`.

    Start and end are the times of the first and last row of a session; it is returned once, in output mode
    `append`, when it is over. Two rows are in one session if they are no more than `gap` apart, as in Kafka
    Streams. A session is over when the watermark (the latest `time` of the batches before, less `watermark`)
    is a `gap` after its end; a row that far behind the watermark of the batch before is dropped.
    """
    keys = names_of(by, "by", rows.columns)
    summed = names_of(sums, "sums", rows.columns, may_be_empty=True)
    refuse_existing_columns(
        ["session_start", "session_end", "count", *[f"sum_{name}" for name in summed]], "by", keys
    )
    at = name_of(time, "time", rows.columns)
    pause = interval_of(gap, "gap")
    marked = rows.withWatermark(quoted(at), interval_of(watermark, "watermark", may_be_zero=True))
    # Spark's end of a session is one gap after its last row.
    found = marked.groupBy(*map(column, keys), F.session_window(column(at), pause)).agg(
        F.count(F.lit(1)).alias("count"), *[F.sum(column(name)).alias(f"sum_{name}") for name in summed]
    )
    start = F.col("session_window.start").alias("session_start")
    end = (F.col("session_window.end") - F.expr(f"INTERVAL {pause}")).alias("session_end")
    return found.select(start, end, *map(column, keys), "count", *[column(f"sum_{name}") for name in summed])
