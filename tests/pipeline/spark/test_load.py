"""Topics into Parquet, step by step: a load continues after a crash, and so does the next run."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from ottla.pipeline.lake import load
from ottla.pipeline.lake.load import LoadResult
from ottla.pipeline.lake.manifest import LakeError
from ottla.pipeline.source.data_loss import DataLossError
from ottla.pipeline.words import OptionError
from tests.pipeline.topics import TIMEOUT_S, fill, make_topic

pytestmark = pytest.mark.slow

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00Z
HOUR_MS = 3_600_000


def values(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def run(spark: SparkSession, bootstrap: str, path: Path, **options: str) -> LoadResult:
    """Run a load once; `__` stands for a dot."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    return load.run(
        spark, {"kafka.bootstrap.servers": bootstrap, "path": str(path), "value.format": "string", **given}
    )


def rows(path: Path) -> list[dict[str, Any]]:
    """Return all rows of the directory, by their numbers."""
    table = ds.dataset(path, format="parquet", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: int(row["value"]))


def numbers(path: Path) -> list[int]:
    return [int(row["value"]) for row in rows(path)]


def test_a_load_continues_where_the_last_one_ended(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, lake = make_topic(bootstrap, partitions=2), tmp_path / "lake"
    fill(bootstrap, topic, values(0, 40), partition=0)
    fill(bootstrap, topic, values(40, 60), partition=1)
    options = {"subscribe": topic, "partitionBy": "topic,partition", "maxOffsetsPerBatch": "30"}

    first = run(spark, bootstrap, lake, **options)
    fill(bootstrap, topic, values(60, 70), partition=1)
    second = run(spark, bootstrap, lake, **options)
    third = run(spark, bootstrap, lake, **options)

    assert (first.batches, first.rows) == (2, 60)
    assert (second.batches, second.rows) == (1, 10)
    assert (third.batches, third.rows) == (0, 0)
    assert third.progress.to_json()[topic].items() >= {"0": 40, "1": 30}.items()
    assert numbers(lake) == list(range(70))
    assert {row["partition"] for row in rows(lake)} == {0, 1}
    assert (lake / "batch=0" / f"topic={topic}" / "partition=0").is_dir()


@pytest.mark.parametrize("point", ["before the rename", "after the rename"])
def test_a_load_that_dies_leaves_no_gap_and_no_row_twice(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    topic, lake = make_topic(bootstrap), tmp_path / "lake"
    fill(bootstrap, topic, values(0, 60))
    rename = Path.rename

    def crash(path: Path, target: Path) -> Path:
        if target.name != "batch=1":
            return rename(path, target)
        if point == "after the rename":
            rename(path, target)
        raise RuntimeError("died here")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crash)
        with pytest.raises(RuntimeError, match="died here"):
            run(spark, bootstrap, lake, subscribe=topic, maxOffsetsPerBatch="20")
    assert numbers(lake) == list(range(20 if point == "before the rename" else 40))

    run(spark, bootstrap, lake, subscribe=topic, maxOffsetsPerBatch="20")

    assert numbers(lake) == list(range(60))


def test_rows_are_laid_out_by_date_and_hour_of_utc(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, lake = make_topic(bootstrap), tmp_path / "lake"
    for hour in (11, 12, 36):
        fill(bootstrap, topic, [b"%d" % hour], timestamp_ms=NOON_MS + (hour - 12) * HOUR_MS)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        # Begin at a time that the record of 11 o'clock is before.
        run(
            spark,
            bootstrap,
            lake,
            subscribe=topic,
            startingTimestamp=str(NOON_MS),
            partitionBy="date,hour",
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    found = {(int(row["value"]), row["date"], row["hour"]) for row in rows(lake)}
    assert found == {(12, "2026-01-01", 12), (36, "2026-01-02", 12)}
    assert ds.dataset(lake, format="parquet").schema.field("timestamp").type == pa.timestamp("us", "UTC")


def test_a_topic_that_was_created_again_is_an_error(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, lake = make_topic(bootstrap), tmp_path / "lake"
    fill(bootstrap, topic, values(0, 10))
    run(spark, bootstrap, lake, subscribe=topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(TIMEOUT_S)
    make_topic(bootstrap, name=topic)
    fill(bootstrap, topic, values(10, 15))

    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        run(spark, bootstrap, lake, subscribe=topic)
    run(spark, bootstrap, lake, subscribe=topic, failOnDataLoss="false")

    assert numbers(lake) == list(range(15))


def test_a_changed_manifest_is_an_error(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topic, lake = make_topic(bootstrap), tmp_path / "lake"
    fill(bootstrap, topic, values(0, 10))
    run(spark, bootstrap, lake, subscribe=topic)
    manifest = lake / "batch=0" / "_batch.json"
    manifest.write_text(manifest.read_text().replace('"0": 10', '"0": -10'))

    with pytest.raises(LakeError, match=r"_batch\.json: endOffsets: -10"):
        run(spark, bootstrap, lake, subscribe=topic)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"partitionBy": "year"},
            r"partitionBy: names year, but a load can be partitioned only by topic, partition, date, hour",
        ),
        ({"value__format": "json"}, r"value\.format: is 'json'"),
        ({"maxOffsetsPerBatch": "0"}, r"maxOffsetsPerBatch: is 0"),
        ({"subscribe": ""}, r"subscribe: names no topic"),
        (
            {"startingOfsets": "earliest"},
            r"startingOfsets: is not an option of this source; startingOffsets\?",
        ),
    ],
)
def test_wrong_options_are_rejected_by_name(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        run(spark, "127.0.0.1:1", tmp_path / "lake", **{"subscribe": "t", **options})
