"""The columns of a sink, checked before the first task begins."""

from typing import Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.pipeline.columns.row_columns import judge_columns
from ottla.pipeline.sink.sink_options import SinkOptions

_TAKEN: Final = ("key", "value", "headers", "topic", "partition", "timestamp")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError for a column that is missing or of a wrong type."""
    # Other columns are ignored, whatever their type; Arrow need not support it.
    with_offsets = options.offset_syncs_topic is not None
    names = (*_TAKEN, "offset") if with_offsets else _TAKEN
    taken = StructType([field for field in schema.fields if field.name in names])
    judge_columns(to_arrow_schema(taken, timezone="UTC"), topic=options.topic, with_offsets=with_offsets)
