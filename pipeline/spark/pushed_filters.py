"""Filters that Spark pushes into a scan, as conditions on records."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.pipeline.source.record_filter import FILTERED_COLUMNS, Comparison, Condition, RecordFilter
from ottla.pipeline.source.where_option import MAX_VALUES

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEGATED: Final = {
    Comparison.EQUAL: Comparison.NOT_EQUAL,
    Comparison.NOT_EQUAL: Comparison.EQUAL,
    Comparison.LESS: Comparison.GREATER_OR_EQUAL,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER,
    Comparison.GREATER: Comparison.LESS_OR_EQUAL,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS,
}


def to_record_filter(filters: Iterable[Filter]) -> RecordFilter:
    """Return the filter of all conditions on FILTERED_COLUMNS; other filters are ignored here."""
    return RecordFilter.of(condition for one in filters if (condition := _condition(one)) is not None)


def _condition(pushed: Filter) -> Condition | None:
    # These columns have no nulls, so whatever does not meet a filter meets its negation.
    if isinstance(pushed, Not):
        condition = _condition(pushed.child)
        if condition is None:
            return None
        return Condition(
            column=condition.column,
            comparison=_NEGATED[condition.comparison],
            values=condition.values,
        )
    match pushed:
        case EqualTo(attribute=path, value=value) | EqualNullSafe(attribute=path, value=value):
            comparison, given = Comparison.EQUAL, (value,)
        case In(attribute=path, value=values) if 0 < len(values) <= MAX_VALUES:
            comparison, given = Comparison.EQUAL, tuple(values)
        case LessThan(attribute=path, value=value):
            comparison, given = Comparison.LESS, (value,)
        case LessThanOrEqual(attribute=path, value=value):
            comparison, given = Comparison.LESS_OR_EQUAL, (value,)
        case GreaterThan(attribute=path, value=value):
            comparison, given = Comparison.GREATER, (value,)
        case GreaterThanOrEqual(attribute=path, value=value):
            comparison, given = Comparison.GREATER_OR_EQUAL, (value,)
        case _:
            return None
    if len(path) != 1 or path[0] not in FILTERED_COLUMNS:
        return None
    read = [_value(path[0], one) for one in given]
    known = tuple(one for one in read if one is not None)
    # A null in a list makes nothing equal, and its negation nothing at all: that is left to Spark.
    return Condition(column=path[0], comparison=comparison, values=known) if len(known) == len(read) else None


def _value(column: str, value: object) -> str | int | None:
    """Return a value in the form of conditions; None if it is not of the column's type."""
    if column == "topic":
        return value if isinstance(value, str) else None
    if column == "timestamp":
        is_moment = isinstance(value, datetime) and value.tzinfo is not None
        return (value - _EPOCH) // timedelta(microseconds=1) if is_moment else None  # type: ignore[operator]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
