"""Directories of Parquet files: topics loaded into one, a stream written to one exactly once."""

from ottla.pipeline.lake.load import LoadResult
from ottla.pipeline.lake.load import run as load
from ottla.pipeline.lake.sink import start as write_stream

__all__ = ["LoadResult", "load", "write_stream"]
