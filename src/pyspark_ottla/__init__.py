"""`format("ottla")` for Spark, which finds modules by such a name and registers their `DefaultSource`.

It does so in a process of its own. In the user's program none of our code runs unless it is imported; if this
module is imported there, all threads can use the format, including those of pools.
"""

from ottla.pipeline.spark.active_session import activate_in_each_thread
from ottla.pipeline.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

activate_in_each_thread()
