"""Makes the rows of a job: its sources opened as views, and its steps one after the other."""

import importlib
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.jobs import spark_formats
from ottla.pipeline.jobs.job import Endpoint, Flow, PythonStep, SqlStep
from ottla.pipeline.jobs.registry import SOURCES

# The view of the previous step's rows, for SQL after a step without a name.
PREVIOUS: Final = "previous"


class StepError(Exception):
    """A step that does not return rows; the message is a sentence."""


def rows_of(spark: SparkSession, flow: Flow) -> DataFrame:
    """Return the rows for the sink.

    The session belongs to the job: its views have the names of the sources.
    """
    sources = {name: _open(spark, source) for name, source in flow.sources.items()}
    for name, frame in sources.items():
        frame.createOrReplaceTempView(name)
    rows: DataFrame | None = None
    for number, step in enumerate(flow.steps, start=1):
        match step:
            case SqlStep(query=query):
                rows = spark.sql(query)
            case PythonStep():
                rows = _call(step, number, sources, rows)
        rows.createOrReplaceTempView(step.view or PREVIOUS)
    return next(iter(sources.values())) if rows is None else rows


def _open(spark: SparkSession, source: Endpoint) -> DataFrame:
    known = SOURCES.get(source.format)
    kind = spark_formats.source_of_a_jar(source.format) if known is None else known()
    opened = kind.table if source.is_static else kind.stream
    assert opened is not None, "the reader of the file has checked it"
    return opened(spark, source.options)


def _call(
    step: PythonStep, number: int, sources: Mapping[str, DataFrame], before: DataFrame | None
) -> DataFrame:
    """Call the step's function with the rows before it; the first one with all sources, several by name."""
    function = getattr(importlib.import_module(step.module), step.function)
    if before is not None:
        given = function(before, **step.arguments)
    elif len(sources) == 1:
        given = function(*sources.values(), **step.arguments)
    else:
        given = function(**sources, **step.arguments)
    if not isinstance(given, DataFrame):
        name = f"{step.module}:{step.function}"
        raise StepError(f"step {number}, {name}, returned {type(given).__name__}, which is not a DataFrame")
    return given
