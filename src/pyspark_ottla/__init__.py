"""`format("ottla")` for Spark, which looks for modules of such a name and registers their `DefaultSource`.

It looks in a process of its own. In the user's program nothing of ours runs unless it is imported: imported
there, this makes the format known to all threads, those of pools too.
"""

from ottla.pipeline.spark.active_session import activate_in_each_thread
from ottla.pipeline.spark.data_source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]

activate_in_each_thread()
