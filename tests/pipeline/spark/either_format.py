"""Reads and writes by either format: Spark's own connector, `kafka`, and ours, `ottla`."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession

FORMATS = ("kafka", "ottla")
TIMEOUT_S = 120
# A unique order of rows, whichever format writes or reads them.
IN_ORDER = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """One of the formats on one cluster; options have its own names."""

    spark: SparkSession
    bootstrap: str
    name: str

    def _options(self, more: dict[str, str]) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, **more}

    def read(self, **options: str) -> DataFrame:
        """Read a batch."""
        return self.spark.read.format(self.name).options(**self._options(options)).load()

    def read_stream(self, **options: str) -> DataFrame:
        """Read a stream."""
        return self.spark.readStream.format(self.name).options(**self._options(options)).load()

    def write(self, frame: DataFrame, **options: str) -> None:
        """Write a batch."""
        frame.write.format(self.name).mode("append").options(**self._options(options)).save()

    def copy(self, frame: DataFrame, checkpoint: str, **options: str) -> int:
        """Copy a stream until it is at its present end; return the number of batches with rows."""
        writer = frame.writeStream.format(self.name).options(**self._options(options))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S)
        return sum(1 for progress in query.recentProgress if progress.numInputRows)


def rows_of(frame: DataFrame) -> list[Row]:
    """Return the rows in the order of their logs."""
    return sorted(frame.collect(), key=lambda row: tuple(row[name] for name in IN_ORDER))


def collect_batches(
    frame: DataFrame, checkpoint: str, select: Callable[[Row], object]
) -> tuple[list[list[object]], dict[str, dict[str, int]]]:
    """Return the present rows of a stream, batch by batch, and its end offsets in the connector's form."""
    batches: list[list[object]] = []

    def keep(rows: DataFrame, _batch_id: int) -> None:
        batches.append([select(row) for row in rows_of(rows)])

    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S)
    return batches, _end_of(query.lastProgress.sources[0].endOffset if query.lastProgress else "{}")


def _end_of(text: str) -> dict[str, dict[str, int]]:
    """Return the offsets without the ids of topics, which the connector does not know."""
    return {
        topic: {name: offset for name, offset in of_topic.items() if name.isdigit()}
        for topic, of_topic in json.loads(text).items()
    }
