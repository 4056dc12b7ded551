"""Functions of stream processing: each takes Spark frames and returns one, in programs and in job files."""

from ottla.pipeline.spark_needed import spark_error

try:
    from ottla.pipeline.streams.dedup import once
    from ottla.pipeline.streams.joins import with_table, within
    from ottla.pipeline.streams.json_records import parse, to_records
    from ottla.pipeline.streams.sessions import sessions
    from ottla.pipeline.streams.state import read_state, require_rocksdb, streaks
    from ottla.pipeline.streams.table import latest, records
    from ottla.pipeline.streams.windows import count_and_sum
except ModuleNotFoundError as error:
    raise spark_error(error) from None

__all__ = [
    "count_and_sum",
    "latest",
    "once",
    "parse",
    "read_state",
    "records",
    "require_rocksdb",
    "sessions",
    "streaks",
    "to_records",
    "with_table",
    "within",
]
