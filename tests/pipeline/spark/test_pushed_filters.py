"""Filters of queries narrow the reads of a topic, each only in its own scan."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.spark.scan_sources import SETTING, give_each_scan_a_source
from tests.pipeline.spark.either_format import rows_of
from tests.pipeline.spark.scanned_rows import read_by_scans
from tests.pipeline.topics import fill, make_topic

pytestmark = pytest.mark.slow

COUNT = 30  # in each of two partitions
BEGUN_MS = time.time_ns() // 1_000_000 - 60_000


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Set up the session as if it had been started with the setting; restore it for other tests."""
    give_each_scan_a_source(spark)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.unset(SETTING)


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Make two partitions, with record `n` at the time `BEGUN_MS + n`."""
    name = make_topic(bootstrap, partitions=2)
    for partition in (0, 1):
        values = [b"%d" % number for number in range(COUNT)]
        fill(bootstrap, name, values, partition=partition, timestamp_ms=BEGUN_MS)
    return name


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("ottla").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load()


@pytest.fixture(scope="module")
def everything(spark: SparkSession, bootstrap: str, topic: str) -> Iterator[DataFrame]:
    """Read all rows once, for Spark to filter without us."""
    frame = read(spark, bootstrap, subscribe=topic).cache()
    yield frame
    frame.unpersist()


FILTERS = [
    ("offset >= 27", 6),
    ("offset = 3 AND partition = 1", 1),
    ("offset IN (2, 3, 29, 99)", 6),
    ("offset > 5 AND offset <> 8 AND offset < 12", 10),
    ("partition < 1", 30),
    ("topic = '{topic}' AND offset BETWEEN 10 AND 12", 6),
    ("topic <> '{topic}'", 0),
    ("timestamp >= '{at[25]}'", 10),
    ("timestamp < '{at[4]}' AND partition IN (0, 5)", 4),
    ("offset >= 28 AND value <> '29' AND NOT (partition = 0)", 2),
    # OR does not narrow the read, and Spark applies it.
    ("(offset < 2 OR offset > 27) AND offset >= 20", 20),
]


@pytest.mark.parametrize(("text", "scanned"), FILTERS)
def test_a_query_reads_the_rows_that_its_filter_wants(
    pushing: SparkSession, bootstrap: str, topic: str, everything: DataFrame, text: str, scanned: int
) -> None:
    moments = [datetime.fromtimestamp((BEGUN_MS + number) / 1000, UTC) for number in range(COUNT)]
    where = text.format(topic=topic, at=[one.isoformat(timespec="milliseconds") for one in moments])
    whole = read(pushing, bootstrap, subscribe=topic)

    filtered = whole.where(where)

    assert read_by_scans(filtered) == scanned
    assert rows_of(filtered) == rows_of(everything.where(where))


def test_a_filter_reaches_no_other_use_of_its_frame(
    pushing: SparkSession, bootstrap: str, topic: str
) -> None:
    whole = read(pushing, bootstrap, subscribe=topic, minPartitions="5")
    late, early = whole.where("offset >= 25"), whole.where("offset < 2")
    whole.createOrReplaceTempView("whole_topic")

    assert (late.count(), whole.count(), early.count()) == (10, 60, 4)
    assert whole.union(late).union(early).count() == 74
    assert whole.alias("a").join(late.alias("b"), ["partition", "offset"]).count() == 10
    counted = "(SELECT count(*) FROM whole_topic WHERE offset {})"
    sql = f"SELECT {counted.format('>= 25')} a, {counted.format('< 2')} b, {counted.format('>= 0')} c"
    assert pushing.sql(sql).collect() == [Row(a=10, b=4, c=60)]
    correlated = (
        "SELECT count(*) n FROM whole_topic a WHERE offset < 3 AND EXISTS"
        " (SELECT 1 FROM whole_topic b WHERE b.offset = a.offset + 1 AND b.offset < 2)"
    )
    assert pushing.sql(correlated).collect() == [Row(n=2)]
    late.cache()
    try:
        assert (late.count(), whole.count()) == (10, 60)
    finally:
        late.unpersist()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(DataFrame.count, [whole, late, early])) == [60, 10, 4]


def test_a_filter_adds_to_the_option_where(pushing: SparkSession, bootstrap: str, topic: str) -> None:
    narrow = read(pushing, bootstrap, subscribe=topic, where="partition = 0 AND offset >= 10")

    late = narrow.where("offset < 12")

    assert (read_by_scans(late), late.count(), narrow.count()) == (2, 2, 20)


def test_tables_of_the_catalog_are_filtered(pushing: SparkSession, bootstrap: str, topic: str) -> None:
    cluster = f"kafka.bootstrap.servers '{bootstrap}'"
    pushing.sql(f"CREATE TABLE filtered USING ottla OPTIONS ({cluster}, subscribe '{topic}')")
    try:
        late = pushing.sql("SELECT offset FROM filtered WHERE offset >= 28 AND partition = 1")

        assert (read_by_scans(late), late.count(), pushing.table("filtered").count()) == (2, 2, 60)
    finally:
        pushing.sql("DROP TABLE filtered")


def test_each_action_with_a_filter_reads_the_present_records(pushing: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, [b"0", b"1"])
    late = read(pushing, bootstrap, subscribe=topic).where("offset >= 1")
    assert late.count() == 1

    fill(bootstrap, topic, [b"2"])

    assert late.count() == 2


def test_the_setting_may_be_removed_between_a_plan_and_its_run(
    pushing: SparkSession, bootstrap: str, topic: str
) -> None:
    whole = read(pushing, bootstrap, subscribe=topic)
    planned = whole.where("offset >= 25").select("offset"), whole.select("offset")
    for frame in planned:
        frame._jdf.queryExecution().optimizedPlan()

    pushing.conf.set(SETTING, "false")

    assert [len(frame.collect()) for frame in planned] == [10, 60]
