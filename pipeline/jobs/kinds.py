"""What a name in a job file stands for: a kind of source, of sink, or of whole job.

`judge` looks at options without Spark and raises OptionError.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.pipeline.query import OUTPUT_MODES, OutputMode, QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

Options = Mapping[str, str]


def as_they_are(options: Options, full_name: str) -> Options:
    """No default depends on the job's full name, `<file's name>.<job>`."""
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """`stream` opens it as a stream, `table` as a table for each batch; None where it cannot be that."""

    judge_stream: Callable[[Options], object]
    stream: "Callable[[SparkSession, Options], DataFrame] | None"
    judge_table: Callable[[Options], object] | None = None
    table: "Callable[[SparkSession, Options], DataFrame] | None" = None
    jar: str = ""  # what its jar's name begins with, for a format that Spark does not come with


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """`start` begins to write a stream; `complete` adds the options that follow from the job's full name."""

    judge: Callable[[Options], object]
    start: "Callable[[DataFrame, Options, QuerySettings], StreamingQuery]"
    output_modes: tuple[OutputMode, ...] = OUTPUT_MODES
    complete: Callable[[Options, str], Options] = as_they_are
    jar: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskKind:
    """`start` begins the job and gives its query; or does all of it and gives None, for a batch."""

    judge: Callable[[Options], object]
    start: "Callable[[SparkSession, Options, QuerySettings], StreamingQuery | None]"
    complete: Callable[[Options, str], Options] = as_they_are
