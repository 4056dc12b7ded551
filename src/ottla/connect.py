"""Connectors as functions of Spark: tables of databases and new files as streams, streams to web hooks."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.connect.file_source import read_stream as read_files
    from ottla.pipeline.connect.http_sink import start as send_to_http
    from ottla.pipeline.connect.table_source import read_stream as read_table
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = ["read_files", "read_table", "send_to_http"]
