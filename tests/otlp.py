"""Encodes OpenTelemetry's MetricsData as protobuf, for tests, as clients push it (KIP-714)."""

import struct
from collections.abc import Mapping, Sequence

CUMULATIVE, DELTA = 2, 1


def varint(number: int) -> bytes:
    """Return a number as a varint: seven bits a byte."""
    written = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def number_field(number: int, value: int) -> bytes:
    """Return a field with a number."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, content: bytes | str) -> bytes:
    """Return a field with a text, bytes or a message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def double_field(number: int, value: float) -> bytes:
    """Return a field with a double."""
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fixed_field(number: int, value: int) -> bytes:
    """Return a field with an integer of eight bytes."""
    return varint(number << 3 | 1) + struct.pack("<q", value)


def attribute(number: int, key: str, value: str | bool | int | float) -> bytes:
    """Return a KeyValue as the field `number`."""
    match value:
        case str():
            inner = bytes_field(1, value)
        case bool():
            inner = number_field(2, value)
        case int():
            inner = number_field(3, value)
        case float():
            inner = double_field(4, value)
    return bytes_field(number, bytes_field(1, key) + bytes_field(2, inner))


def point(value: float, *, attributes: Mapping[str, str | bool | int | float] | None = None) -> bytes:
    """Return a NumberDataPoint; the value is in `as_int` for an int, and in `as_double` for a float."""
    content = b"".join(attribute(7, key, text) for key, text in (attributes or {}).items())
    content += fixed_field(2, 1_000) + fixed_field(3, 2_000)
    return content + (fixed_field(6, value) if isinstance(value, int) else double_field(4, value))


def buckets(
    bounds: Sequence[float],
    counts: Sequence[int],
    total: float,
    *,
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    """Return a HistogramDataPoint."""
    content = b"".join(attribute(9, key, text) for key, text in (attributes or {}).items())
    content += fixed_field(4, sum(counts)) + double_field(5, total)
    content += bytes_field(6, struct.pack(f"<{len(counts)}Q", *counts))
    return content + bytes_field(7, struct.pack(f"<{len(bounds)}d", *bounds))


def gauge(name: str, *points: bytes) -> bytes:
    """Return a Metric that is a gauge."""
    return _metric(name, 5, b"".join(bytes_field(1, one) for one in points))


def total(name: str, *points: bytes, temporality: int = DELTA, is_monotonic: bool = True) -> bytes:
    """Return a Metric that is a sum."""
    content = b"".join(bytes_field(1, one) for one in points)
    return _metric(name, 7, content + number_field(2, temporality) + number_field(3, is_monotonic))


def histogram(name: str, *points: bytes, temporality: int = DELTA) -> bytes:
    """Return a Metric that is a histogram."""
    content = b"".join(bytes_field(1, one) for one in points)
    return _metric(name, 9, content + number_field(2, temporality))


def summary(name: str, *points: bytes) -> bytes:
    """Return a Metric that is a summary."""
    return _metric(name, 11, b"".join(bytes_field(1, one) for one in points))


def metrics_data(*metrics: bytes, resource: Mapping[str, str] | None = None) -> bytes:
    """Return MetricsData with these metrics of one resource."""
    of_resource = b"".join(attribute(1, key, text) for key, text in (resource or {}).items())
    scope = bytes_field(1, bytes_field(1, "org.example")) + b"".join(bytes_field(2, one) for one in metrics)
    return bytes_field(1, bytes_field(1, of_resource) + bytes_field(2, scope))


def _metric(name: str, kind: int, content: bytes) -> bytes:
    return bytes_field(1, name) + bytes_field(2, "words") + bytes_field(3, "ms") + bytes_field(kind, content)
