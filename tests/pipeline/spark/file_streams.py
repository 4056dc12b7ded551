"""Streams that are identical at every start: a file of lines for each batch."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def stream_of_files(spark: SparkSession, folder: Path, batches: Sequence[Sequence[str]]) -> DataFrame:
    """Return a stream with the lines of each batch in its column `value`."""
    source = folder / "batches"
    source.mkdir(exist_ok=True)
    for number, lines in enumerate(batches):
        (source / f"{number:05}").write_text("".join(f"{line}\n" for line in lines))
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
