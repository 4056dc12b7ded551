"""Spark's own formats as sources and sinks of a job. Spark judges their options itself, but for those without
which nothing could run.
"""

from typing import TYPE_CHECKING, Final

from ottla.pipeline.client.setting_files import has_reference
from ottla.pipeline.jobs.kinds import Options, SinkKind, SourceKind
from ottla.pipeline.query import QuerySettings
from ottla.pipeline.words import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Rows of files in columns of their own, which a stream is to be told beforehand; `text` has one.
COLUMNED_FILES: Final = ("csv", "json", "orc", "parquet", "xml")
FILES: Final = (*COLUMNED_FILES, "text")
# Rows out of nothing, for trials, and places where rows end.
GENERATORS: Final = ("rate", "rate-micro-batch")
ENDS: Final = ("console", "noop")
KAFKA_JAR: Final = "spark-sql-kafka-0-10"
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")


def files_source(name: str) -> SourceKind:
    """Files of a folder, those that come later as well; `schema` is their columns as in CREATE TABLE."""

    def judge_stream(options: Options) -> None:
        _need(options, "path")
        if name in COLUMNED_FILES:
            _need(options, "schema")

    return SourceKind(
        judge_stream=judge_stream,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
        judge_table=lambda options: _need(options, "path"),
        table=lambda spark, options: _open(spark, name, options, is_stream=False),
    )


def files_sink(name: str) -> SinkKind:
    """Files in a folder, each batch once; `partitionBy` names columns that become folders."""
    return SinkKind(
        judge=lambda options: _need(options, "path"),
        start=lambda frame, options, query: _start(frame, name, options, query),
        output_modes=("append",),
    )


def generator(name: str) -> SourceKind:
    """Rows that Spark makes up."""
    return SourceKind(
        judge_stream=lambda options: None,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
    )


def end(name: str) -> SinkKind:
    """Rows to look at, or for nobody."""
    return SinkKind(
        judge=lambda options: None, start=lambda frame, options, query: _start(frame, name, options, query)
    )


def kafka_source() -> SourceKind:
    """Spark's own connector, when its jar is there."""
    return SourceKind(
        judge_stream=_judge_kafka,
        stream=lambda spark, options: _open(spark, "kafka", options, is_stream=True),
        judge_table=_judge_kafka,
        table=lambda spark, options: _open(spark, "kafka", options, is_stream=False),
        jar=KAFKA_JAR,
    )


def kafka_sink() -> SinkKind:
    """Spark's own connector: at least once."""
    return SinkKind(
        judge=_judge_kafka_cluster,
        start=lambda frame, options, query: _start(frame, "kafka", options, query),
        jar=KAFKA_JAR,
    )


def source_of_a_jar(name: str) -> SourceKind:
    """A format of a jar that the configuration names."""
    return SourceKind(
        judge_stream=lambda options: None,
        stream=lambda spark, options: _open(spark, name, options, is_stream=True),
        judge_table=lambda options: None,
        table=lambda spark, options: _open(spark, name, options, is_stream=False),
    )


def _judge_kafka_cluster(options: Options) -> None:
    for name, value in options.items():
        if has_reference(value):
            raise OptionError(name, "refers to a file, but Spark's own connector reads none; use ${NAME}")
    _need(options, "kafka.bootstrap.servers")


def _judge_kafka(options: Options) -> None:
    _judge_kafka_cluster(options)
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
