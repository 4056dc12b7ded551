"""A Spark session in which format("ottla") works, with settings and metrics of its queries."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.query import AvailableNow, ProcessingTime, QuerySettings
    from ottla.pipeline.source.progress import Lag, lag_of_source
    from ottla.pipeline.spark.metrics_server import MetricsServer, serve_metrics
    from ottla.pipeline.spark.query_metrics import observed
    from ottla.pipeline.spark.scan_sources import give_each_scan_a_source
    from ottla.pipeline.spark.session import start_session
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = [
    "AvailableNow",
    "Lag",
    "MetricsServer",
    "ProcessingTime",
    "QuerySettings",
    "give_each_scan_a_source",
    "lag_of_source",
    "observed",
    "serve_metrics",
    "start_session",
]
