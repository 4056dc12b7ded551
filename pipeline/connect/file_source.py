"""The new files of a directory as a stream: lines, CSV or JSON, read by Spark's own readers.

A file is read once, whole, when it is first seen. So a finished file must be renamed into the directory: data
appended later is never read, and a half-written file is read as it is. Names that begin with `.` or `_` are
ignored, so a writer can use them for unfinished files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.connect.record_mapping import RecordMapping, to_records
from ottla.pipeline.option_values import OptionValues
from ottla.pipeline.words import OptionError


class FileFormat(Enum):
    """The format of the files."""

    LINES = "lines"
    CSV = "csv"
    JSON = "json"


# Spark's names. Options without effect in streams, or that would read a file twice, are not among them.
_FILE_OPTIONS: Final = (
    "cleanSource",
    "encoding",
    "fileNameOnly",
    "latestFirst",
    "lineSep",
    "maxBytesPerTrigger",
    "maxFileAge",
    "maxFilesPerTrigger",
    "pathGlobFilter",
    "recursiveFileLookup",
    "sourceArchiveDir",
)
_ROW_OPTIONS: Final = (
    "columnNameOfCorruptRecord",
    "dateFormat",
    "locale",
    "mode",
    "multiLine",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
)
_FORMAT_OPTIONS: Final = {
    FileFormat.LINES: ("wholetext",),
    FileFormat.CSV: (
        *_ROW_OPTIONS,
        "comment",
        "delimiter",
        "emptyValue",
        "enforceSchema",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "maxCharsPerColumn",
        "nanValue",
        "nullValue",
        "quote",
        "sep",
    ),
    FileFormat.JSON: (
        *_ROW_OPTIONS,
        "allowComments",
        "allowSingleQuotes",
        "allowUnquotedFieldNames",
        "primitivesAsString",
    ),
}
# A line that is not a row stops the query; Spark's own default is a row of nulls. A header with the columns
# in another order is an error, where Spark would go by their places.
_DEFAULTS: Final = {
    FileFormat.LINES: {},
    FileFormat.CSV: {"mode": "FAILFAST", "enforceSchema": "false"},
    FileFormat.JSON: {"mode": "FAILFAST"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options of a file source; `spark_options` has Spark's own."""

    path: str
    format: FileFormat
    schema: str | None
    file_header: str | None  # the name of a record header for the path of the file
    mapping: RecordMapping
    spark_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> "FileOptions":
        """Read the options; OptionError for the first that cannot be honoured."""
        values = OptionValues(given)
        kind = FileFormat(values.choice("file.format", [one.value for one in FileFormat]))
        schema = values.optional("schema")
        if kind is FileFormat.LINES and schema:
            raise OptionError("schema", "is for csv and json; lines have a single column, value")
        if kind is not FileFormat.LINES and not schema:
            raise OptionError("schema", "is missing: name the columns, such as id LONG, name STRING")
        spark_options = dict(_DEFAULTS[kind])
        for name in (*_FILE_OPTIONS, *_FORMAT_OPTIONS[kind]):
            value = values.optional(name)
            if value is not None:
                spark_options[name] = value
        options = cls(
            path=values.text("path"),
            format=kind,
            schema=schema,
            file_header=values.optional("file.header"),
            mapping=RecordMapping.read(values),
            spark_options=spark_options,
        )
        values.refuse_others()
        if options.mapping.is_rows and options.file_header:
            raise OptionError("file.header", "is for records, but the layout is rows")
        return options


def read_stream(spark: SparkSession, given: Mapping[str, str]) -> DataFrame:
    """Return a stream of `key` and `value`, or with `output` = rows of the files' columns; OptionError.

    If no column is named by `value`, the value of lines is the line, and that of others all columns as JSON.
    """
    options = FileOptions.from_options(given)
    reader = spark.readStream.format("text" if options.format is FileFormat.LINES else options.format.value)
    if options.schema is not None:
        reader = reader.schema(options.schema)
    frame = reader.options(**options.spark_options).load(options.path)
    mapping = options.mapping
    if options.format is FileFormat.LINES and not mapping.is_rows and mapping.value is None:
        mapping = RecordMapping(key=mapping.key, value="value")
    headers = None
    if options.file_header is not None:
        path = F.col("_metadata.file_path").cast("binary").alias("value")
        headers = F.array(F.struct(F.lit(options.file_header).alias("key"), path))
    return to_records(frame, mapping, headers)
