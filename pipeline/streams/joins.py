"""Joins of a stream with a table, and of two streams within a time.

Columns of the right side get a prefix, so that all names differ.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.row_texts import column, quoted
from ottla.pipeline.streams.arguments import interval_of, name_of, names_of, one_of, refuse_existing_columns
from ottla.pipeline.words import OptionError

KINDS = ("inner", "left")


def with_table(
    stream: DataFrame,
    table: DataFrame,
    *,
    key: str,
    table_key: str,
    prefix: str = "table_",
    kind: str = "left",
    broadcast: str = "true",
) -> DataFrame:
    """Join each row with the row of the table whose `table_key` is the row's `key`.

    With `kind="left"` a row without one gets nulls. The table is `table.latest` of a compacted topic, as it
    is when the batch is planned. With `broadcast` each task gets the whole table, as a global table of Kafka
    Streams; `false` is for one that does not fit into memory, and shuffles both sides.
    """
    names, table_names = _pairs(key, stream, table_key, table, ("key", "table_key"))
    one_of(kind, "kind", KINDS)
    right = _prefixed(table, prefix, stream)
    if one_of(broadcast, "broadcast", ("true", "false")) == "true":
        right = F.broadcast(right)
    return stream.join(right, _equal(names, table_names, prefix), kind)


def within(
    left: DataFrame,
    right: DataFrame,
    *,
    key: str,
    left_time: str,
    right_time: str,
    before: str,
    after: str,
    left_watermark: str,
    right_watermark: str,
    right_key: str = "",
    prefix: str = "right_",
    kind: str = "inner",
) -> DataFrame:
    """Join each row of the left stream with every row of the right one that has its key and is near in time.

    The right row's time is from `before` earlier to `after` later than the left row's (both included). Each
    side is kept until the other can have no partner any more, by the watermarks. With `kind="left"` a row
    without a partner is returned with nulls once that is certain, so later than the others.
    """
    names, right_names = _pairs(key, left, right_key or key, right, ("key", "right_key"))
    one_of(kind, "kind", KINDS)
    at = name_of(left_time, "left_time", left.columns)
    other_at = f"{prefix}{name_of(right_time, 'right_time', right.columns)}"
    earliest = F.expr(f"INTERVAL {interval_of(before, 'before', may_be_zero=True)}")
    latest = F.expr(f"INTERVAL {interval_of(after, 'after', may_be_zero=True)}")
    left_stream = left.withWatermark(
        quoted(at), interval_of(left_watermark, "left_watermark", may_be_zero=True)
    )
    right_stream = _prefixed(right, prefix, left).withWatermark(
        quoted(other_at), interval_of(right_watermark, "right_watermark", may_be_zero=True)
    )
    near = (column(other_at) >= column(at) - earliest) & (column(other_at) <= column(at) + latest)
    return left_stream.join(right_stream, _equal(names, right_names, prefix) & near, kind)


def _pairs(
    key: str, left: DataFrame, right_key: str, right: DataFrame, options: tuple[str, str]
) -> tuple[list[str], list[str]]:
    names = names_of(key, options[0], left.columns)
    others = names_of(right_key, options[1], right.columns)
    if len(names) != len(others):
        raise OptionError(options[1], f"has {len(others)} columns, but {options[0]} has {len(names)}")
    return names, others


def _prefixed(frame: DataFrame, prefix: str, other: DataFrame) -> DataFrame:
    refuse_existing_columns([f"{prefix}{name}" for name in frame.columns], "prefix", other.columns)
    return frame.select(*[column(name).alias(f"{prefix}{name}") for name in frame.columns])


def _equal(names: list[str], others: list[str], prefix: str) -> F.Column:
    condition = F.lit(True)
    for index, (name, other) in enumerate(zip(names, others, strict=True)):
        one = column(name) == column(f"{prefix}{other}")
        condition = one if index == 0 else condition & one
    return condition
