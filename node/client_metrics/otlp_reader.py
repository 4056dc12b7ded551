"""Reads OpenTelemetry's MetricsData (v1, protobuf), which clients push, into points.

    MetricsData > ResourceMetrics > ScopeMetrics > Metric > Gauge | Sum | Histogram > data points

Whatever the bytes are, the reader decodes a bounded number of fields and no recursive messages, and makes
points only of names, attributes and buckets within the limits. Other points are left out and counted, as are
exponential histograms and summaries, which no Kafka client sends. Malformed protobuf is INVALID_RECORD.
"""

import struct
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import MAX_VARLONG_BYTES

# A push of a megabyte has some 100,000 fields; each takes a microsecond.
MAX_FIELDS: Final = 300_000
# A consumer of a thousand partitions pushes some 5,000 points with three attributes each.
MAX_POINTS: Final = 10_000
MAX_ATTRIBUTES_OF_ALL: Final = 60_000
MAX_NAME_CHARS: Final = 256
MAX_ATTRIBUTES: Final = 32  # of a point with its resource
MAX_KEY_CHARS: Final = 128
MAX_VALUE_CHARS: Final = 1_024  # like the limit of ids
MAX_BUCKETS: Final = 128
FIELDS_PER_PAUSE: Final = 2_048

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_UINT64: Final = struct.Struct("<Q")
_NO_VALUE: Final = 1  # the flag of a point without a measured value
_DELTA: Final = 1
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF

Attributes = tuple[tuple[str, str], ...]
Pause = Callable[[], None]


class PointKind(Enum):
    """The kind of a metric."""

    GAUGE = "gauge"  # goes up and down
    COUNTER = "counter"  # a monotonic sum
    HISTOGRAM = "histogram"


class Buckets(NamedTuple):
    """A distribution: the number of values up to each bound and beyond the last, and their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def number(self) -> int:
        """The number of values."""
        return sum(self.counts)


class MetricPoint(NamedTuple):
    """One value of a metric. A delta is the change since the previous push."""

    name: str
    kind: PointKind
    attributes: Attributes
    value: float | Buckets
    is_delta: bool


class Pushed(NamedTuple):
    """The points of one push, and the number of points that were left out."""

    points: list[MetricPoint]
    left_out: int


def read_metrics(data: bytes | memoryview, pause: Pause = lambda: None) -> Pushed:
    """Return the points of MetricsData; INVALID_RECORD if the bytes are malformed.

    `pause` is called every few milliseconds, and may raise an exception to stop the work.
    """
    reader = _Reader(pause)
    try:
        for number, value in reader.fields(memoryview(data)):
            if number == 1:
                reader.read_resource_metrics(_message(value))
    except (IndexError, ValueError, struct.error) as error:  # truncated, or not UTF-8
        raise _malformed(str(error)) from None
    return Pushed(reader.points, reader.left_out)


class _Reader:
    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._left = MAX_FIELDS
        self._left_attributes = MAX_ATTRIBUTES_OF_ALL
        self.points: list[MetricPoint] = []
        self.left_out = 0

    def fields(self, view: memoryview) -> Iterator[tuple[int, int | memoryview]]:
        """Yield the number and the value of each field of a message; a value is a number or bytes."""
        position, end = 0, len(view)
        while position < end:
            self._left -= 1
            if self._left % FIELDS_PER_PAUSE == 0:
                self._pause()
            if self._left < 0:
                raise _malformed(f"more than {MAX_FIELDS} fields")
            key, position = _varint(view, position)
            number, wire_type = key >> 3, key & 7
            if number == 0:
                raise _malformed("a field with the number 0")
            if wire_type == _VARINT:
                value, position = _varint(view, position)
                yield number, value
                continue
            if wire_type == _BYTES:
                size, position = _varint(view, position)
            elif wire_type == _FIXED64:
                size = 8
            elif wire_type == _FIXED32:
                size = 4
            else:
                raise _malformed(f"a field of type {wire_type}")
            if size > end - position:
                raise _malformed("a field is cut off")
            yield number, view[position : position + size]
            position += size

    def read_resource_metrics(self, view: memoryview) -> None:
        resource: dict[str, str] = {}
        scopes = []
        for number, value in self.fields(view):
            if number == 1:
                for inner, attribute in self.fields(_message(value)):
                    if inner == 1:
                        self._read_attribute(_message(attribute), resource)
            elif number == 2:
                scopes.append(_message(value))
        for scope in scopes:
            for number, value in self.fields(scope):
                if number == 2:
                    self._read_metric(_message(value), resource)

    def _read_metric(self, view: memoryview, resource: dict[str, str]) -> None:
        name = ""
        data: tuple[int, memoryview] | None = None
        for number, value in self.fields(view):
            if number == 1:
                name = _text(value)
            elif number in (5, 7, 9, 10, 11):
                data = number, _message(value)
        if data is None:
            return
        number, content = data
        temporality = is_monotonic = 0
        points = []
        for inner, value in self.fields(content):
            if inner == 1:
                points.append(_message(value))
            elif inner == 2 and isinstance(value, int):
                temporality = value
            elif inner == 3 and isinstance(value, int):
                is_monotonic = value
        if not 0 < len(name) <= MAX_NAME_CHARS or number in (10, 11):
            self.left_out += len(points)
            return
        is_delta = number != 5 and temporality == _DELTA
        for point in points:
            if len(self.points) >= MAX_POINTS or self._left_attributes <= 0:
                self.left_out += 1
                continue
            made: MetricPoint | None
            if number == 9:
                made = self._histogram(name, point, resource, is_delta=is_delta)
            else:
                kind = PointKind.COUNTER if number == 7 and is_monotonic else PointKind.GAUGE
                made = self._number(name, kind, point, resource, is_delta=is_delta)
            if made is None:
                self.left_out += 1
            else:
                self._left_attributes -= len(made.attributes)
                self.points.append(made)

    def _number(
        self, name: str, kind: PointKind, view: memoryview, resource: dict[str, str], *, is_delta: bool
    ) -> MetricPoint | None:
        attributes = dict(resource)
        number_value: float | None = None
        flags = 0
        for number, value in self.fields(view):
            if number == 4:
                number_value = _double(value)
            elif number == 6:
                number_value = float(_INT64.unpack(_message(value))[0])
            elif number == 7:
                self._read_attribute(_message(value), attributes)
            elif number == 8 and isinstance(value, int):
                flags = value
        if number_value is None or flags & _NO_VALUE or not _are_bounded(attributes):
            return None
        return MetricPoint(name, kind, tuple(attributes.items()), number_value, is_delta)

    def _histogram(
        self, name: str, view: memoryview, resource: dict[str, str], *, is_delta: bool
    ) -> MetricPoint | None:
        attributes = dict(resource)
        bounds: list[float] = []
        counts: list[int] = []
        count, total, flags = 0, 0.0, 0
        for number, value in self.fields(view):
            if number == 4:
                count = _UINT64.unpack(_message(value))[0]
            elif number == 5:
                total = _double(value)
            elif number == 6:
                counts += map(int, _packed(_message(value), _UINT64, MAX_BUCKETS + 1 - len(counts)))
            elif number == 7:
                bounds += _packed(_message(value), _DOUBLE, MAX_BUCKETS - len(bounds))
            elif number == 9:
                self._read_attribute(_message(value), attributes)
            elif number == 10 and isinstance(value, int):
                flags = value
        if not counts and not bounds:
            counts = [count]
        is_whole = (
            len(bounds) <= MAX_BUCKETS
            and len(counts) == len(bounds) + 1
            and sum(counts) == count
            and all(one < other for one, other in pairwise(bounds))
        )
        if flags & _NO_VALUE or not is_whole or not _are_bounded(attributes):
            return None
        buckets = Buckets(tuple(bounds), tuple(counts), total)
        return MetricPoint(name, PointKind.HISTOGRAM, tuple(attributes.items()), buckets, is_delta)

    def _read_attribute(self, view: memoryview, attributes: dict[str, str]) -> None:
        """Add a KeyValue to the attributes, unless its value is a list or bytes, which have no text."""
        key, text = "", None
        for number, value in self.fields(view):
            if number == 1:
                key = _text(value)
            elif number == 2:
                text = self._any_value(_message(value))
        if key and text is not None and len(attributes) <= MAX_ATTRIBUTES:
            attributes[key] = text

    def _any_value(self, view: memoryview) -> str | None:
        text = None
        for number, value in self.fields(view):
            if number == 1:
                text = _text(value)
            elif number == 2:
                text = "true" if value else "false"
            elif number == 3 and isinstance(value, int):
                text = str(value - (1 << 64) if value >> 63 else value)
            elif number == 4:
                text = repr(_double(value))
        return text


def _are_bounded(attributes: dict[str, str]) -> bool:
    return len(attributes) <= MAX_ATTRIBUTES and all(
        len(key) <= MAX_KEY_CHARS and len(text) <= MAX_VALUE_CHARS for key, text in attributes.items()
    )


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    number, shift = byte & 0x7F, 7
    for at in range(position + 1, position + MAX_VARLONG_BYTES):
        byte = view[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _MASK, at + 1
        shift += 7
    raise _malformed(f"a varint of more than {MAX_VARLONG_BYTES} bytes")


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _malformed("a number where a message is expected")
    return value


def _text(value: int | memoryview) -> str:
    return str(_message(value), "utf-8")


def _double(value: int | memoryview) -> float:
    number: float = _DOUBLE.unpack(_message(value))[0]
    return number


def _packed(view: memoryview, of: struct.Struct, most: int) -> list[float]:
    """Return packed numbers of eight bytes, but at most one more than `most`, which shows an excess."""
    if len(view) % 8:
        raise _malformed("numbers that are cut off")
    return [one for (one,) in of.iter_unpack(view[: 8 * max(0, most + 1)])]


def _malformed(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"The metrics are not valid MetricsData: {what}.")
