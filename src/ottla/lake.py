"""Directories of Parquet files: topics loaded into one, a stream written to one exactly once."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.lake.load import LoadResult
    from ottla.pipeline.lake.load import run as load
    from ottla.pipeline.lake.sink import start as write_stream
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = ["LoadResult", "load", "write_stream"]
