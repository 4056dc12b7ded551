"""The kinds of sources, sinks and tasks that names in a job file stand for.

`check_options` checks options without Spark and raises OptionError.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.pipeline.query import OUTPUT_MODES, OutputMode, QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

Options = Mapping[str, str]


def unchanged_options(options: Options, full_name: str) -> Options:
    """Return the options as they are, for a kind without options that follow from the job's full name.

    That name is `FILE_NAME.JOB`.
    """
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """A kind of source.

    `stream` opens it as a stream, `table` as a table for each batch; None if it cannot.
    """

    check_stream_options: Callable[[Options], object]
    stream: "Callable[[SparkSession, Options], DataFrame] | None"
    check_table_options: Callable[[Options], object] | None = None
    table: "Callable[[SparkSession, Options], DataFrame] | None" = None
    jar: str = ""  # the beginning of its jar's name, for a format that Spark does not include


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """A kind of sink.

    `start` starts a query; `complete` adds the options that follow from the job's full name.
    """

    check_options: Callable[[Options], object]
    start: "Callable[[DataFrame, Options, QuerySettings], StreamingQuery]"
    output_modes: tuple[OutputMode, ...] = OUTPUT_MODES
    complete: Callable[[Options, str], Options] = unchanged_options
    jar: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """A kind of task. `start` starts the job and returns its query, or does all of it and returns None."""

    check_options: Callable[[Options], object]
    start: "Callable[[SparkSession, Options, QuerySettings], StreamingQuery | None]"
    complete: Callable[[Options, str], Options] = unchanged_options
