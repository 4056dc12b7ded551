"""The columns of a sink, checked before the first task begins."""

from typing import Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ottla.pipeline.columns.row_columns import find_row_layout
from ottla.pipeline.sink.sink_options import SinkOptions

_RECORD_COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp")


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError for a column that is missing or of a wrong type."""
    # Other columns are ignored, whatever their type; Arrow need not support it.
    with_offsets = options.offset_syncs_topic is not None
    names = (*_RECORD_COLUMNS, "offset") if with_offsets else _RECORD_COLUMNS
    taken = StructType([field for field in schema.fields if field.name in names])
    find_row_layout(to_arrow_schema(taken, timezone="UTC"), topic=options.topic, with_offsets=with_offsets)
