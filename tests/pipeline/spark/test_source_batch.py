"""`spark.read.format("ottla")`: the rows of a batch, its columns, its interfaces, and invalid options."""

import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tests.pipeline.topics import TIMEOUT_S, delete_records, fill, make_topic

pytestmark = pytest.mark.slow

TEN = [b"%d" % index for index in range(10)]


def read(spark: SparkSession, bootstrap: str, *, schema: str = "", **options: str) -> DataFrame:
    """Read a batch of the cluster with these options; `__` stands for a dot."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    reader = spark.read.format("ottla").options(**{"kafka.bootstrap.servers": bootstrap, **given})
    return (reader.schema(schema) if schema else reader).load()


def test_rows_have_the_columns_of_sparks_connector(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=2)
    now_ms = time.time_ns() // 1_000_000
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for number, codec in enumerate(codecs):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        producer.produce(topic, key=b"k", value=b"", partition=1, timestamp=now_ms + number)
        headers = [("h", codec.encode()), ("h", None)]
        producer.produce(topic, value=None, partition=1, timestamp=now_ms + number, headers=headers)
        assert producer.flush(TIMEOUT_S) == 0

    frame = read(spark, bootstrap, subscribe=topic, includeHeaders="true")
    rows = frame.orderBy("offset").collect()

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (topic, 1, offset, 0) for offset in range(10)
    ]
    assert [(row.key, row.value, row.headers) for row in rows[::2]] == [(b"k", b"", None)] * 5
    assert [(row.key, row.value, row.headers) for row in rows[1::2]] == [
        (None, None, [Row(key="h", value=codec.encode()), Row(key="h", value=None)]) for codec in codecs
    ]
    moments_ms = [row.ms for row in frame.selectExpr("unix_millis(timestamp) ms").orderBy("ms").collect()]
    assert moments_ms == [now_ms + number // 2 for number in range(10)]


def test_a_schema_prunes_columns(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, TEN)

    frame = read(spark, bootstrap, subscribe=topic, schema="offset bigint, value binary")

    assert frame.collect() == [Row(offset=offset, value=value) for offset, value in enumerate(TEN)]


def test_each_action_of_a_frame_and_a_view_reads_the_present_records(
    spark: SparkSession, bootstrap: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, TEN)
    frame = read(spark, bootstrap, subscribe=topic)
    frame.createOrReplaceTempView("each_action")
    view = "SELECT count(*) FROM each_action"
    assert (frame.count(), spark.sql(view).first()) == (10, Row(**{"count(1)": 10}))

    fill(bootstrap, topic, [b"one more"])

    assert (frame.count(), spark.sql(view).first()) == (11, Row(**{"count(1)": 11}))

    delete_records(bootstrap, topic, 4)

    assert frame.count() == 7


def test_sql_reads_a_view(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, TEN, partition=0)
    fill(bootstrap, topic, TEN, partition=1)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW flights USING ottla OPTIONS"
        f" (kafka.bootstrap.servers '{bootstrap}', subscribe '{topic}', minPartitions '6',"
        f""" startingOffsets '{{"{topic}": {{"0": 4, "1": -2}}}}')"""
    )

    found = spark.sql("SELECT partition, count(*) n, max(offset) last FROM flights GROUP BY ALL ORDER BY 1")

    assert found.collect() == [Row(partition=0, n=6, last=9), Row(partition=1, n=10, last=9)]
    assert spark.table("flights").rdd.getNumPartitions() == 6


def test_where_belongs_to_its_own_frame(spark: SparkSession, bootstrap: str) -> None:
    """Spark 4.3 itself would apply a filter pushed for one use of a frame to all other uses of it."""
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, TEN)
    whole = read(spark, bootstrap, subscribe=topic)
    late = read(spark, bootstrap, subscribe=topic, where="offset >= 8 AND partition = 0")
    late.createOrReplaceTempView("late_offsets")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert (late.count(), whole.count(), late.where("offset >= 9").count()) == (2, 10, 1)
        assert (whole.where("offset >= 8").count(), whole.count(), late.rdd.getNumPartitions()) == (2, 10, 1)
        assert whole.where("offset < 3").union(whole.where("offset >= 9")).union(late).count() == 6
        assert whole.alias("a").join(whole.where("offset >= 8").alias("b"), "partition").count() == 20
        assert spark.sql("SELECT min(offset) n FROM late_offsets").collect() == [Row(n=8)]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    fill(bootstrap, topic, [b"one more"])

    assert (late.count(), whole.count()) == (3, 11)
    nothing = read(spark, bootstrap, assign=f'{{"{topic}": [0]}}', where="partition = 1")
    assert (nothing.count(), nothing.schema) == (0, whole.schema)


def test_where_narrows_a_table_in_sql(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, TEN)
    spark.sql(
        f"CREATE TABLE narrowed USING ottla OPTIONS (kafka.bootstrap.servers '{bootstrap}',"
        f" subscribe '{topic}', where 'offset >= 2')"
    )
    try:
        of_query = "SELECT offset FROM narrowed WITH (where = 'offset IN (0, 9)') ORDER BY offset"
        assert spark.table("narrowed").count() == 8
        assert spark.sql(of_query).collect() == [Row(offset=0), Row(offset=9)]
        assert spark.table("narrowed").count() == 8
    finally:
        spark.sql("DROP TABLE narrowed")


def test_a_table_of_the_catalog_is_read_and_streamed(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, TEN)
    spark.sql(
        f"CREATE TABLE topic_table USING ottla OPTIONS (kafka.bootstrap.servers '{bootstrap}',"
        f" subscribe '{topic}') COMMENT 'of a test' TBLPROPERTIES ('owner.team' = 'tests')"
    )
    try:
        assert spark.table("topic_table").count() == 10

        fill(bootstrap, topic, [b"v"])
        assert spark.sql("SELECT value FROM topic_table WHERE offset = 10").collect() == [Row(value=b"v")]

        stream = spark.readStream.option("startingOffsets", "earliest").table("topic_table")
        writer = stream.writeStream.format("memory").queryName("streamed_table")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        assert writer.start().awaitTermination(TIMEOUT_S)
        assert spark.table("streamed_table").count() == 11
    finally:
        spark.sql("DROP TABLE topic_table")


def test_a_table_of_the_catalog_is_written_by_sql_and_by_frames(spark: SparkSession, bootstrap: str) -> None:
    flights, copies = make_topic(bootstrap), make_topic(bootstrap)
    for name, topic in ("flights", flights), ("copies", copies):
        spark.sql(
            f"CREATE TABLE {name}_table USING ottla OPTIONS"
            f" (kafka.bootstrap.servers '{bootstrap}', topic '{topic}')"
        )
    try:
        spark.sql("INSERT INTO flights_table (key, value) VALUES (X'01', X'0A'), (NULL, X'0B')")
        spark.sql("INSERT INTO copies_table (key, value) SELECT key, value FROM flights_table")
        spark.table("flights_table").select("value").writeTo("copies_table").append()
        writer = spark.table("flights_table").select("value").write.format("ottla")
        writer.mode("append").saveAsTable("copies_table")

        found = sorted((row.key or b"", row.value) for row in spark.table("copies_table").collect())
        assert found == [(b"", b"\n")] * 2 + [(b"", b"\v")] * 3 + [(b"\1", b"\n")]
        assert spark.table("flights_table").count() == 2

        # Rows carry the options of the table they were read from: they are not written back into it.
        with pytest.raises(PySparkException, match="column offset: is given by the log"):
            spark.sql("INSERT INTO copies_table SELECT * FROM flights_table")
        assert (spark.table("flights_table").count(), spark.table("copies_table").count()) == (2, 6)
    finally:
        spark.sql("DROP TABLE flights_table")
        spark.sql("DROP TABLE copies_table")


def test_a_table_that_declares_columns_is_rejected_as_it_has_no_options(
    spark: SparkSession, bootstrap: str
) -> None:
    spark.sql(
        "CREATE TABLE declared_table (value BINARY) USING ottla OPTIONS"
        f" (kafka.bootstrap.servers '{bootstrap}', topic '{make_topic(bootstrap)}')"
    )
    try:
        for statement in "SELECT * FROM declared_table", "INSERT INTO declared_table VALUES (X'01')":
            with pytest.raises(PySparkException, match="only if CREATE TABLE neither names columns nor"):
                spark.sql(statement).collect()
    finally:
        spark.sql("DROP TABLE declared_table")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOfsets": "earliest"}, "startingofsets: is not an option of this source; startingOffsets?"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger: is 0; it must be from 1"),
        ({"assign": '{"t": [0]}'}, "assign: cannot be used together with subscribe"),
        (
            {"subscribe": "nobody-has-it"},
            "subscribe: names topics or partitions that do not exist: topic nobody-has-it",
        ),
        ({"startingOffsets": "latest"}, "startingOffsets: is latest"),
        ({"where": "value = 'v'"}, "where: names 'value'; topic, partition, offset, timestamp"),
        (
            {"startingOffsets": "earliest", "startingTimestamp": "1"},
            "startingOffsets: cannot be used together with startingTimestamp",
        ),
    ],
)
def test_invalid_options_are_rejected_by_name(
    spark: SparkSession, bootstrap: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException) as rejected:
        read(spark, bootstrap, **{"subscribe": "t", **options}).collect()

    assert message in str(rejected.value)


OVER_CONNECT = """
import sys
from pyspark.sql import SparkSession
address, bootstrap, topic, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
frame = spark.read.format("ottla").options(**options).load()
spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
print(frame.where("offset >= 8").count(), frame.count(), frame.where("partition = 1").count())
stream = spark.readStream.format("ottla").options(**options).load()
stream = stream.selectExpr("CAST(CAST(value AS STRING) AS INT) v")
writer = stream.writeStream.format("memory").queryName("over_connect")
writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
assert writer.start().awaitTermination(120)
print(spark.sql("SELECT sum(v) FROM over_connect").first()[0])
"""


def test_a_client_over_spark_connect_reads_without_a_jar_and_a_call(
    connect_server: str, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap, partitions=2)
    fill(bootstrap, topic, TEN, partition=0)
    fill(bootstrap, topic, TEN, partition=1)
    command = [sys.executable, "-c", OVER_CONNECT, connect_server, bootstrap, topic, checkpoint]

    answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    assert answer.stdout.split() == ["4", "20", "10", "90"], answer.stderr[-6000:]
