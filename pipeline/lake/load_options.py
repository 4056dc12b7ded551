"""The options of a load: its layout, and for its reads the options of `format("ottla")` in a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.pipeline.lake.sink import LakeOptions
from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.source.option_names import WHERE
from ottla.pipeline.source.source_options import Mode, SourceOptions
from ottla.pipeline.words import OptionError

LAYOUTS: Final = ("topic", "partition", "date", "hour")
FORMATS: Final = ("binary", "string")
DEFAULT_BATCH_OFFSETS: Final = 5_000_000
_ISOLATION: Final = "kafka.isolation.level"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of a load. `reader` has the options of every step, without its limits.

    `max_offsets_per_batch` bounds a step, and so what is loaded again after a crash.
    """

    lake: LakeOptions
    source: SourceOptions
    reader: Mapping[str, str] = field(repr=False)
    key_format: str
    value_format: str
    max_offsets_per_batch: int

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> "LoadOptions":
        """Read the options; OptionError for the first that cannot be honoured."""
        values = OptionValues(given)
        lake = LakeOptions.read(values)
        unknown = [name for name in lake.partition_by if name not in LAYOUTS]
        if unknown:
            raise OptionError(
                "partitionBy",
                f"names {unknown[0]}, but a load can be partitioned only by {', '.join(LAYOUTS)}",
            )
        key_format = values.choice("key.format", FORMATS, "binary")
        value_format = values.choice("value.format", FORMATS, "binary")
        max_offsets = values.integer("maxOffsetsPerBatch", DEFAULT_BATCH_OFFSETS, least=1, most=1_000_000_000)
        reader = values.others()
        if any(name.lower() == WHERE for name in reader):
            raise OptionError(WHERE, "is for batch reads: a load stores all records, each once")
        if not any(name.lower() == _ISOLATION for name in reader):
            # A file does not show whether the transaction of a row was aborted.
            reader[_ISOLATION] = "read_committed"
        return cls(
            lake=lake,
            source=SourceOptions.from_options(reader, Mode.BATCH),
            reader=reader,
            key_format=key_format,
            value_format=value_format,
            max_offsets_per_batch=max_offsets,
        )
