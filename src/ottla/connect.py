"""Connectors as functions of Spark: tables of databases and new files as streams, streams to web hooks."""

from ottla.pipeline.connect.file_source import read_stream as read_files
from ottla.pipeline.connect.http_sink import start as send_to_http
from ottla.pipeline.connect.table_source import read_stream as read_table

__all__ = ["read_files", "read_table", "send_to_http"]
