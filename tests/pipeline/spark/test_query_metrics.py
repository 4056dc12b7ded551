"""A session serves the metrics of its queries on demand."""

import re
import time
import urllib.error
import urllib.request

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.spark.metrics_server import serve_metrics
from ottla.pipeline.spark.query_metrics import observed
from tests.pipeline.spark.either_format import TIMEOUT_S
from tests.pipeline.topics import fill, make_topic


def test_lag_records_and_bytes_of_a_running_query_are_scraped(
    spark: SparkSession, bootstrap: str, checkpoint: str
) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, [b"12345"] * 4)
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    rows = rows.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    writer = observed(rows.load()).writeStream.format("noop").queryName("scraped")
    server = serve_metrics(spark, port=0)
    try:
        query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 hour").start()
        seen = scraped_until("query_bytes_total", server.port)
        query.stop()

        where = f'query="scraped",source="0",topic="{topic}",partition="0"'
        assert sample(seen, "query_batch_records", 'query="scraped"') == 3
        assert sample(seen, "query_bytes_total", 'query="scraped"') == 15
        assert sample(seen, "source_lag_records", where) == 1
        assert sample(seen, "source_lag_seconds", where) > 0
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(server.port, "/")
    finally:
        server.close()


def scraped_until(name: str, port: int) -> str:
    """Return the metrics once they have the family `name`."""
    deadline = time.monotonic() + TIMEOUT_S
    while f"ottla_spark_{name}{{" not in (seen := scrape(port, "/metrics")):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen


def scrape(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
        return str(answer.read().decode())


def sample(text: str, name: str, labels: str) -> float:
    found = re.search(rf"^ottla_spark_{name}\{{{re.escape(labels)}\}} (.+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])
