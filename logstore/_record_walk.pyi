"""The functions of pure_record_walk, compiled; they take any contiguous buffer."""

from ottla.logstore.pure_record_walk import Span
from ottla.logstore.words.varint import ByteSource

def walk(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    max_bytes: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
    /,
) -> tuple[int, int, int, int]: ...
def is_plain(
    content: ByteSource,
    position: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    earliest: int,
    latest: int,
    /,
) -> bool: ...
def plain_fields(
    batch: ByteSource, max_bytes: int, earliest: int, latest: int, latest_codec: int, /
) -> tuple[int, ...] | None: ...
def places(
    content: ByteSource, position: int, end: int, count: int, into: memoryview, row: int, rows: int, /
) -> tuple[int, int]: ...
def find(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    base_timestamp: int,
    timestamp: int,
    offset_delta: int,
    /,
) -> tuple[int, int, int, int, int]: ...
def spans(
    content: ByteSource, position: int, index: int, count: int, max_records: int, /
) -> tuple[int, int, int, list[Span]]: ...
def due_times(
    content: ByteSource,
    position: int,
    index: int,
    count: int,
    max_records: int,
    base_timestamp: int,
    is_stamped: bool,
    default_delay: int,
    now: int,
    latest: int,
    is_strict: bool,
    /,
) -> tuple[int, int, int, bytes, bytes]: ...
