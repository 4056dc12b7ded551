"""Ottla: an event-streaming cluster that any Kafka client can use and that needs nothing but Python.

Programs may import what these modules export; everything else is private and may change in any release.

ottla.testing   a cluster inside a test process, with nodes that can be killed, paused and cut off
ottla.spark     a Spark session with format("ottla"), and metrics of its queries
ottla.streams   functions of stream processing over Spark's frames
ottla.connect   tables, files and web hooks as sources and sinks of Spark
ottla.lake      topics and streams in directories of Parquet files
ottla.mirror    topics of one cluster copied to another
ottla.jobs      job files, read and run

`ottla.__version__` is the version. The pytest fixtures of `ottla.pytest_plugin` come with the installation.
"""

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Return the version of the installation; it is read at the first use, which takes 20 ms."""
    if name != "__version__":
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    from importlib.metadata import version

    return version("ottla")
