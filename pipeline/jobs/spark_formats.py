"""Spark's own formats as sources and sinks of a job.

Spark itself checks their options, except for those without which nothing could run.
"""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.client.setting_files import has_reference
from ottla.pipeline.jobs.kinds import Options, SinkKind, SourceKind
from ottla.pipeline.query import QuerySettings
from ottla.pipeline.words import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Files with columns, whose schema a stream must be given; `text` has one column.
COLUMNED_FILES: Final = ("csv", "json", "orc", "parquet", "xml")
FILES: Final = (*COLUMNED_FILES, "text")
# Sources that generate rows, for trials, and sinks that store none.
GENERATORS: Final = ("rate", "rate-micro-batch")
TRIAL_SINKS: Final = ("console", "noop")
KAFKA_JAR: Final = "spark-sql-kafka-0-10"
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")


def files_source(name: str) -> SourceKind:
    """Return the source of a folder's files, also later ones; `schema` has columns as in CREATE TABLE."""

    def check_stream_options(options: Options) -> None:
        _need(options, "path")
        if name in COLUMNED_FILES:
            _need(options, "schema")

    return SourceKind(
        check_stream_options=check_stream_options,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
        check_table_options=lambda options: _need(options, "path"),
        table=lambda spark, options: _open(spark, name, options, is_stream=False),
    )


def files_sink(name: str) -> SinkKind:
    """Return the sink into files of a folder, each batch once; columns in `partitionBy` become folders."""
    return SinkKind(
        check_options=lambda options: _need(options, "path"),
        start=lambda frame, options, query: _start(frame, name, options, query),
        output_modes=("append",),
    )


def generator(name: str) -> SourceKind:
    """Return a source of rows that Spark generates."""
    return SourceKind(
        check_stream_options=lambda options: None,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
    )


def unchecked_sink(name: str) -> SinkKind:
    """Return a sink whose options Spark alone checks: one of TRIAL_SINKS, or one from a jar."""
    return SinkKind(
        check_options=lambda options: None,
        start=lambda frame, options, query: _start(frame, name, options, query),
    )


def kafka_source() -> SourceKind:
    """Return the source of Spark's own connector, which needs its jar."""
    return SourceKind(
        check_stream_options=_check_kafka_source,
        stream=lambda spark, options: _open(spark, "kafka", options, is_stream=True),
        check_table_options=_check_kafka_source,
        table=lambda spark, options: _open(spark, "kafka", options, is_stream=False),
        jar=KAFKA_JAR,
    )


def kafka_sink() -> SinkKind:
    """Return the sink of Spark's own connector: at least once."""
    return SinkKind(
        check_options=_check_kafka_cluster,
        start=lambda frame, options, query: _start(frame, "kafka", options, query),
        jar=KAFKA_JAR,
    )


def source_of_a_jar(name: str) -> SourceKind:
    """Return the source of a format in a jar that the configuration names."""
    return SourceKind(
        check_stream_options=lambda options: None,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
        check_table_options=lambda options: None,
        table=lambda spark, options: _open(spark, name, options, is_stream=False),
    )


def _check_kafka_cluster(options: Options) -> None:
    for name, value in options.items():
        if has_reference(value):
            raise OptionError(name, "refers to a file, but Spark's own connector reads none; use ${NAME}")
    _need(options, "kafka.bootstrap.servers")


def _check_kafka_source(options: Options) -> None:
    _check_kafka_cluster(options)
    given = [name for name in _SUBSCRIPTIONS if _value(options, name) is not None]
    if not given:
        raise OptionError(
            "subscribe", f"is missing; use one of {', '.join(_SUBSCRIPTIONS)} to say what to read"
        )
    if len(given) > 1:
        raise OptionError(given[1], f"cannot be used together with {given[0]}")


def _need(options: Options, name: str) -> None:
    if not _value(options, name):
        raise OptionError(name, "is missing")


def _value(options: Options, name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _without(options: Options, name: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if key.lower() != name.lower()}


def _open(spark: "SparkSession", name: str, options: Options, *, is_stream: bool) -> "DataFrame":
    schema = _value(options, "schema")
    rest = _without(options, "schema")
    if is_stream:
        stream = spark.readStream.format(name).options(**rest)
        return (stream.schema(schema) if schema else stream).load()
    table = spark.read.format(name).options(**rest)
    return (table.schema(schema) if schema else table).load()


def _start(frame: "DataFrame", name: str, options: Options, query: QuerySettings) -> "StreamingQuery":
    columns = [one.strip() for one in (_value(options, "partitionBy") or "").split(",") if one.strip()]
    writer = frame.writeStream.format(name).options(**_without(options, "partitionBy"))
    return query.start(writer.partitionBy(*columns) if columns else writer)
