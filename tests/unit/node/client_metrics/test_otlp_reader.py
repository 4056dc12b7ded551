"""Metrics of clients are decoded correctly, and hostile bytes are rejected before they cost much."""

import math

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client_metrics.otlp_reader import (
    MAX_ATTRIBUTES,
    MAX_ATTRIBUTES_OF_ALL,
    MAX_BUCKETS,
    MAX_FIELDS,
    MAX_NAME_CHARS,
    MAX_POINTS,
    MAX_VALUE_CHARS,
    Buckets,
    MetricPoint,
    PointKind,
    read_metrics,
)
from tests.otlp import (
    CUMULATIVE,
    attribute,
    buckets,
    bytes_field,
    double_field,
    fixed_field,
    gauge,
    histogram,
    metrics_data,
    number_field,
    point,
    summary,
    total,
    varint,
)


def test_gauges_sums_and_histograms_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("queue", point(1.5, attributes={"topic": "t"}), point(-2)),
        total("sent", point(7)),
        total("all", point(9), temporality=CUMULATIVE),
        total("open", point(3), is_monotonic=False),
        histogram("latency", buckets([1.0, 5.0], [1, 2, 3], 20.5, attributes={"node": "1"})),
        resource={"group_id": "g"},
    )

    pushed = read_metrics(data)

    of_group = ("group_id", "g")
    assert pushed.left_out == 0
    assert pushed.points == [
        MetricPoint("queue", PointKind.GAUGE, (of_group, ("topic", "t")), 1.5, False),
        MetricPoint("queue", PointKind.GAUGE, (of_group,), -2.0, False),
        MetricPoint("sent", PointKind.COUNTER, (of_group,), 7.0, True),
        MetricPoint("all", PointKind.COUNTER, (of_group,), 9.0, False),
        MetricPoint("open", PointKind.GAUGE, (of_group,), 3.0, True),
        MetricPoint(
            "latency",
            PointKind.HISTOGRAM,
            (of_group, ("node", "1")),
            Buckets((1.0, 5.0), (1, 2, 3), 20.5),
            True,
        ),
    ]


def test_attributes_of_all_scalar_types_become_texts() -> None:
    given: dict[str, str | bool | int | float] = {"a": "ä", "b": True, "c": -5, "d": 0.5}

    (read,) = read_metrics(metrics_data(gauge("m", point(1, attributes=given)))).points

    assert dict(read.attributes) == {"a": "ä", "b": "true", "c": "-5", "d": "0.5"}


def test_an_attribute_with_a_list_is_left_out() -> None:
    nested = bytes_field(7, bytes_field(1, "list") + bytes_field(2, bytes_field(5, b"\x0a\x00")))

    (read,) = read_metrics(metrics_data(gauge("m", point(1) + nested))).points

    assert read.attributes == ()


def test_an_attribute_of_a_point_wins_over_that_of_its_resource() -> None:
    data = metrics_data(gauge("m", point(1, attributes={"k": "own"})), resource={"k": "shared"})

    assert read_metrics(data).points[0].attributes == (("k", "own"),)


def test_nan_and_infinity_are_accepted() -> None:
    read = read_metrics(metrics_data(gauge("m", point(math.nan), point(math.inf)))).points

    assert math.isnan(read[0].value) and read[1].value == math.inf  # type: ignore[arg-type]


def test_unknown_fields_are_skipped() -> None:
    unknown = number_field(99, 5) + bytes_field(98, b"x") + fixed_field(97, 1) + varint(96 << 3 | 5) + b"1234"

    assert len(read_metrics(unknown + metrics_data(gauge("m", point(1)) + unknown) + unknown).points) == 1


@pytest.mark.parametrize(
    "metric",
    [
        gauge("", point(1)),
        gauge("m" * (MAX_NAME_CHARS + 1), point(1)),
        gauge("m", fixed_field(2, 1)),  # without a value
        gauge("m", point(1) + number_field(8, 1)),  # flag NO_RECORDED_VALUE
        gauge("m", point(1, attributes={"k": "v" * (MAX_VALUE_CHARS + 1)})),
        gauge("m", point(1, attributes={f"k{number}": "v" for number in range(MAX_ATTRIBUTES + 1)})),
        summary("m", double_field(5, 1.0)),
        histogram("m", buckets([5.0, 1.0], [1, 2, 3], 1.0)),
        histogram("m", buckets([1.0], [1, 2, 3], 1.0)),
        histogram("m", buckets([1.0], [1, 2], 1.0) + fixed_field(4, 9)),
        histogram("m", buckets(range(MAX_BUCKETS + 1), [0] * (MAX_BUCKETS + 2), 1.0)),
    ],
)
def test_points_that_are_invalid_or_beyond_the_limits_are_left_out_and_counted(metric: bytes) -> None:
    pushed = read_metrics(metrics_data(metric, gauge("fine", point(1))))

    assert [one.name for one in pushed.points] == ["fine"]
    assert pushed.left_out == 1


def test_a_histogram_without_buckets_has_one() -> None:
    (read,) = read_metrics(metrics_data(histogram("m", fixed_field(4, 3) + double_field(5, 6.0)))).points

    assert read.value == Buckets((), (3,), 6.0)


def test_the_number_of_points_is_limited() -> None:
    pushed = read_metrics(metrics_data(gauge("m", *[point(1)] * (MAX_POINTS + 5))))

    assert (len(pushed.points), pushed.left_out) == (MAX_POINTS, 5)


def test_the_number_of_attributes_of_all_points_is_limited() -> None:
    many = {f"k{number}": "v" for number in range(MAX_ATTRIBUTES)}
    pushed = read_metrics(metrics_data(*[gauge("m", point(1))] * 3_000, resource=many))

    kept = len(pushed.points)
    assert kept * MAX_ATTRIBUTES >= MAX_ATTRIBUTES_OF_ALL > (kept - 1) * MAX_ATTRIBUTES
    assert pushed.left_out == 3_000 - kept


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x00\x00",  # the field 0
        b"\x0b",  # a group, which proto3 does not have
        b"\x0f\x00",
        b"\xff" * 11,
        b"\x08" + b"\xff" * 10 + b"\x01",
        number_field(1, 5),  # a number in place of a message
        metrics_data(gauge("m", bytes_field(4, b"1234"))),
        metrics_data(gauge("m", bytes_field(6, b"1"))),
        metrics_data(histogram("m", bytes_field(6, b"123"))),
        metrics_data(bytes_field(1, b"\xff\xfe")),
        metrics_data(gauge("m", point(1)))[:-1],
    ],
)
def test_malformed_protobuf_is_an_invalid_record(data: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        read_metrics(data)

    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_too_many_fields_are_rejected() -> None:
    with pytest.raises(KafkaError, match=f"more than {MAX_FIELDS} fields"):
        read_metrics(number_field(9, 1) * (MAX_FIELDS + 1))


def test_long_work_pauses_and_can_be_stopped() -> None:
    def end() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        read_metrics(number_field(9, 1) * 10_000, end)
    read_metrics(attribute(9, "few", "fields"), end)
