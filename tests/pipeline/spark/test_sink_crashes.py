"""Exactly once through a fault at every point: each row is there once, in the order of its key."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.spark.crash_queries import (
    BATCHES,
    check_rows,
    faulty_options,
    query_starter,
    run_to_the_end,
)
from tests.pipeline.spark.faulty_sink import POINTS, FaultyDataSource
from tests.thorough import THOROUGH

pytestmark = pytest.mark.slow

# Before the decision, at it and after it: each guarantee of the protocol needs one of these.
IN_EACH_RUN = (
    "in the middle of a task",
    "the record is written and not committed",
    "in the middle of rolling forward",
)


@pytest.mark.parametrize(
    "point", [one if one in IN_EACH_RUN else pytest.param(one, marks=THOROUGH) for one in POINTS]
)
def test_rows_are_there_once_after_a_fault(
    spark: SparkSession, bootstrap: str, tmp_path: Path, point: str
) -> None:
    spark.dataSource.register(FaultyDataSource)
    options = faulty_options(bootstrap, tmp_path, point, "exception")

    failures = run_to_the_end(query_starter(spark, tmp_path, format="faulty", **options))

    assert Path(options["fault.flag"]).exists()
    assert len(failures) == 1 and f"fault: {point}" in failures[0]
    check_rows(bootstrap, options["topic"], BATCHES)


def test_a_worker_is_killed_in_the_middle_of_a_task(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    spark.dataSource.register(FaultyDataSource)
    options = faulty_options(bootstrap, tmp_path, "in the middle of a task", "worker")

    failures = run_to_the_end(query_starter(spark, tmp_path, format="faulty", **options))

    assert len(failures) == 1
    check_rows(bootstrap, options["topic"], BATCHES)
