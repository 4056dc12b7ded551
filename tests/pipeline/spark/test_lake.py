"""A stream into a directory of Parquet files: exactly once, also for readers that do not know the layout."""

import json
import os
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.pipeline.lake import directory, sink
from ottla.pipeline.query import AvailableNow, QuerySettings
from ottla.pipeline.words import OptionError

pytestmark = pytest.mark.slow

SCHEMA = "id LONG, carrier STRING"
TIMEOUT_S = 120


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """Make three files of ten rows, each of which becomes a micro-batch."""
    folder = tmp_path / "inbox"
    folder.mkdir()
    for batch in range(3):
        add_file(folder, batch)
    return folder


def add_file(folder: Path, batch: int) -> None:
    """Write the file of a batch; Spark reads files in the order of their times."""
    rows = [{"id": row, "carrier": ("AA", "UA")[row % 2]} for row in range(batch * 10, batch * 10 + 10)]
    file = folder / f"{batch}.json"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def stream(spark: SparkSession, inbox: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(inbox))


def copy(frame: DataFrame, lake: Path, checkpoint: str, **options: str) -> StreamingQuery:
    """Start a query for the present rows."""
    query = QuerySettings(name="to-lake", checkpoint=checkpoint, trigger=AvailableNow())
    return sink.start(frame, {"path": str(lake), "partitionBy": "carrier"} | options, query)


def ids(path: Path) -> list[int]:
    """Return the ids of all rows, as a reader finds them that does not know of batches."""
    return sorted(ds.dataset(path, format="parquet", partitioning="hive").to_table()["id"].to_pylist())


def test_any_reader_of_parquet_sees_each_row_once(
    spark: SparkSession, inbox: Path, tmp_path: Path, checkpoint: str
) -> None:
    lake = tmp_path / "lake"

    assert copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)

    expected = list(range(30))
    assert ids(lake) == expected
    frame = pd.read_parquet(lake)
    assert sorted(frame["id"]) == expected
    assert sorted(frame["batch"].astype(int).unique()) == [0, 1, 2]
    again = spark.read.parquet(str(lake))
    assert sorted(row.id for row in again.collect()) == expected
    assert again.where("batch = 1 and carrier = 'AA'").count() == 5
    found = duckdb.sql(
        f"SELECT id FROM read_parquet('{lake}/**/*.parquet', hive_partitioning = true)"
    ).fetchall()
    assert sorted(row[0] for row in found) == expected


@pytest.mark.parametrize("point", ["while rows are written", "before the rename", "after the rename"])
def test_a_query_that_dies_shows_no_row_twice_and_loses_none(
    spark: SparkSession,
    inbox: Path,
    tmp_path: Path,
    checkpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    lake, rename = tmp_path / "lake", Path.rename

    def crash(path: Path, target: Path = Path("batch=1")) -> object:
        if target.name != "batch=1":
            return rename(path, target)
        if point == "after the rename":
            rename(path, target)
        raise RuntimeError("died here")

    with monkeypatch.context() as patched:
        patched.setattr(
            *((sink, "measure") if point == "while rows are written" else (Path, "rename")), crash
        )
        with pytest.raises(Exception, match="died here"):
            copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)
    there = {"while rows are written": 0, "before the rename": 10, "after the rename": 20}[point]
    assert ids(lake) == list(range(there)) if there else not list(lake.glob("batch=*"))

    assert copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)

    assert ids(lake) == list(range(30))
    assert list(lake.with_name(".lake.staging").iterdir()) == []


def test_batches_that_are_there_are_not_written_again(
    spark: SparkSession, inbox: Path, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's record of a batch may be lost after the batch became visible: here it is deleted."""
    lake = tmp_path / "lake"
    assert copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    (Path(checkpoint) / "commits" / "2").unlink()
    (Path(checkpoint) / "commits" / ".2.crc").unlink()
    staged: list[int] = []
    staging_path = directory.LakeDirectory.staging_path
    monkeypatch.setattr(
        directory.LakeDirectory,
        "staging_path",
        lambda self, batch: staged.append(batch) or staging_path(self, batch),
    )
    add_file(inbox, 3)

    assert copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)

    assert staged == [3]
    assert {path: path.stat().st_mtime_ns for path in before if path != lake} == {
        path: time for path, time in before.items() if path != lake
    }
    assert ids(lake) == list(range(40))


def test_a_query_with_another_checkpoint_is_rejected(
    spark: SparkSession, inbox: Path, tmp_path: Path, checkpoint: str
) -> None:
    lake = tmp_path / "lake"
    assert copy(stream(spark, inbox), lake, checkpoint).awaitTermination(TIMEOUT_S)

    with pytest.raises(Exception, match=r"belongs to query .*, not to query"):
        copy(stream(spark, inbox), lake, checkpoint + "-2").awaitTermination(TIMEOUT_S)

    assert ids(lake) == list(range(30))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitionBy": "carier"}, r"partitionBy: names carier, but the columns are id, carrier"),
        ({"partitionBy": "id,carrier"}, r"partitionBy: names every column"),
        ({"compression": "rar"}, r"compression: is 'rar'; it must be one of zstd"),
        ({"path": "s3a://bucket/lake"}, r"path: is 's3a://bucket/lake', but must be a directory"),
        ({"paht": "/lake"}, r"paht: is not an option here"),
    ],
)
def test_rows_unfit_for_the_layout_are_rejected_before_the_start(
    spark: SparkSession, inbox: Path, tmp_path: Path, checkpoint: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        copy(stream(spark, inbox), tmp_path / "lake", checkpoint, **options)


def test_a_column_with_the_name_of_the_directories_is_rejected(
    spark: SparkSession, inbox: Path, tmp_path: Path, checkpoint: str
) -> None:
    frame = stream(spark, inbox).withColumnRenamed("id", "Batch")

    with pytest.raises(OptionError, match="so no column can have the name batch"):
        copy(frame, tmp_path / "lake", checkpoint)
