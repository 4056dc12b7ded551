"""The names that a job file may use, with their kinds.

A kind is a function that imports what it needs, so that a file with one source does not load everything. To
add one, write its function and its line.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.pipeline.jobs import spark_formats
from ottla.pipeline.jobs.kinds import Options, SinkKind, SourceKind, TaskKind
from ottla.pipeline.query import QuerySettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def _ottla_source() -> SourceKind:
    from ottla.pipeline.source.source_options import Mode, SourceOptions
    from ottla.pipeline.spark.fresh_table import read_fresh

    return SourceKind(
        check_stream_options=lambda options: SourceOptions.from_options(options, Mode.STREAM),
        stream=lambda spark, options: spark.readStream.format("ottla").options(**options).load(),
        check_table_options=lambda options: SourceOptions.from_options(options, Mode.BATCH),
        table=read_fresh,  # each micro-batch reads the topics again, as they are at one moment
    )


def _ottla_sink() -> SinkKind:
    from ottla.pipeline.sink.sink_options import SinkOptions

    return SinkKind(
        check_options=SinkOptions.from_options, start=_start_ottla, complete=_with_transactional_id
    )


def _with_transactional_id(options: Options, full_name: str) -> Options:
    """Add the transactional id by which an exactly-once sink finds its records after a restart."""
    given = {name.lower(): value for name, value in options.items()}
    is_exactly_once = given.get("delivery.guarantee", "").lower() == "exactly_once"
    return _with_job_id(options, full_name) if is_exactly_once else options


def _with_job_id(options: Options, full_name: str) -> Options:
    """Add the job's name as its transactional id, if it has no other."""
    is_given = any(name.lower() == "transactional.id" for name in options)
    return options if is_given else {**options, "transactional.id": full_name}


def _start_ottla(frame: "DataFrame", options: Options, query: QuerySettings) -> "StreamingQuery":
    if query.output_mode != "update":
        return query.start(frame.writeStream.format("ottla").options(**options))

    # Spark has no update mode for sinks in Python. A batch written on its own is exactly once as well: it is
    # identified by the query's id and the batch's number, which a task has in either case.
    def write(batch: "DataFrame", batch_id: int) -> None:
        batch.write.format("ottla").mode("append").options(**options).save()

    return query.start(frame.writeStream.foreachBatch(write))


def _file_source() -> SourceKind:
    from ottla.pipeline.connect.file_source import FileOptions, read_stream

    return SourceKind(check_stream_options=FileOptions.from_options, stream=read_stream)


def _table_source() -> SourceKind:
    from ottla.pipeline.connect.table_options import TableOptions
    from ottla.pipeline.connect.table_source import read_stream

    return SourceKind(check_stream_options=TableOptions.from_options, stream=read_stream)


def _lake_sink() -> SinkKind:
    from ottla.pipeline.lake.sink import LakeOptions, start

    return SinkKind(check_options=LakeOptions.from_options, start=start, output_modes=("append",))


def _http_sink() -> SinkKind:
    from ottla.pipeline.connect.http_options import HttpOptions
    from ottla.pipeline.connect.http_sink import start

    return SinkKind(check_options=HttpOptions.from_options, start=start, output_modes=("append", "update"))


def _load_task() -> TaskKind:
    from ottla.pipeline.lake.load import run
    from ottla.pipeline.lake.load_options import LoadOptions

    def start(spark: "SparkSession", options: Options, _query: QuerySettings) -> None:
        # Its progress is stored with its rows, so there is neither a query nor a checkpoint.
        run(spark, options)

    return TaskKind(check_options=LoadOptions.from_options, start=start)


def _mirror_task() -> TaskKind:
    from ottla.pipeline.mirror.mirror_job import run
    from ottla.pipeline.mirror.mirror_options import MirrorOptions

    return TaskKind(
        check_options=MirrorOptions.from_options,
        start=lambda spark, options, query: run(spark, MirrorOptions.from_options(options), query).query,
        complete=_with_job_id,
    )


SOURCES: Final[Mapping[str, Callable[[], SourceKind]]] = {
    "ottla": _ottla_source,
    "file": _file_source,
    "table": _table_source,
    "kafka": spark_formats.kafka_source,
    **{name: partial(spark_formats.files_source, name) for name in spark_formats.FILES},
    **{name: partial(spark_formats.generator, name) for name in spark_formats.GENERATORS},
}
SINKS: Final[Mapping[str, Callable[[], SinkKind]]] = {
    "ottla": _ottla_sink,
    "http": _http_sink,
    "lake": _lake_sink,
    "kafka": spark_formats.kafka_sink,
    **{name: partial(spark_formats.files_sink, name) for name in spark_formats.FILES},
    **{name: partial(spark_formats.unchecked_sink, name) for name in spark_formats.TRIAL_SINKS},
}
# Jobs that are a task: the key of a job that has the task's options.
TASKS: Final[Mapping[str, Callable[[], TaskKind]]] = {
    "load": _load_task,
    "mirror": _mirror_task,
}
