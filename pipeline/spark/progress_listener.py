"""A listener that gets the progress of queries from Spark in one JSON."""

import json
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    StreamingQueryProgress,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


class _AsJson(JStreamingQueryListener):
    """The listener that Java calls.

    Spark's own takes the progress of a batch apart value by value, and at the end of each map in it asks Java
    forty times what kind of exception the end is: 0.1 s of processor time.
    """

    def onQueryProgress(self, jevent: "JavaObject") -> None:
        fields = json.loads(jevent.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(fields)))


def java_listener(listener: StreamingQueryListener) -> "JavaObject":
    """Return the listener for Java that calls `listener`, for its attribute `_jlistener`."""
    jvm = SparkContext._jvm
    assert jvm is not None
    return jvm.PythonStreamingQueryListenerWrapper(_AsJson(listener))
