"""`format("ottla")` for Spark, which looks for modules of such a name and registers their `DefaultSource`."""

from pipeline.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
