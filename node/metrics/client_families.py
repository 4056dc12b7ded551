"""Families of the metrics that clients pushed (KIP-714), and of the results of their pushes."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from ottla.node.client_metrics.client_instances import ClientReading
from ottla.node.client_metrics.otlp_reader import Buckets, PointKind
from ottla.node.metrics.family import Family, Row, counter, gauge, labels, with_labels
from ottla.node.metrics.readings import ClientMetricsReading

_COUNTERS: Final = "ottla_client_metric_total"
_GAUGES: Final = "ottla_client_metric_value"
_HISTOGRAMS: Final = "ottla_client_metric_histogram"


def client_families(reading: ClientMetricsReading) -> list[Family]:
    """Return the families of all clients' series by type, and those that count clients, series and pushes."""
    return [
        gauge(
            _GAUGES,
            "Gauges that clients pushed, by client and metric.",
            _rows(reading.clients, PointKind.GAUGE),
        ),
        counter(
            _COUNTERS,
            "Counters that clients pushed, by client and metric, summed since the client's first push.",
            _rows(reading.clients, PointKind.COUNTER),
        ),
        Family(
            _HISTOGRAMS,
            "Histograms that clients pushed, by client and metric, summed since the client's first push.",
            "histogram",
            _histograms(reading.clients),
        ),
        gauge(
            "kafka_server_client_metrics_instance_count",
            "Clients that push metrics to this node, or ask which ones to push.",
            reading.instances,
        ),
        gauge("ottla_client_metrics_series", "Series kept of metrics that clients pushed.", reading.series),
        counter(
            "ottla_client_metrics_pushes_total",
            "Pushes of metrics by clients, by result.",
            [(labels(result=result), count) for result, count in reading.pushes.items()],
        ),
        counter(
            "ottla_client_metrics_left_out_total",
            "Points of pushed metrics that are not shown, by reason.",
            [(labels(reason=reason), count) for reason, count in reading.left_out.items()],
        ),
    ]


def _rows(clients: Sequence[ClientReading], kind: PointKind) -> Iterator[Row]:
    for client in clients:
        of_client = labels(client_instance_id=client.client_instance_id, client_id=client.client_id)
        for key, value in client.series:
            if key.kind is kind and not isinstance(value, Buckets):
                yield with_labels(of_client, metric=key.metric, **dict(key.labels)), value


def _histograms(clients: Sequence[ClientReading]) -> Iterator[str]:
    for client in clients:
        of_client = labels(client_instance_id=client.client_instance_id, client_id=client.client_id)
        for key, value in client.series:
            if isinstance(value, Buckets):
                text = with_labels(of_client, metric=key.metric, **dict(key.labels))
                bounds = [*(f"{bound:g}" for bound in value.bounds), "+Inf"]
                for bound, count in zip(bounds, accumulate(value.counts), strict=True):
                    yield f"{_HISTOGRAMS}_bucket{with_labels(text, le=bound)} {count}\n"
                yield f"{_HISTOGRAMS}_count{text} {value.number}\n"
                yield f"{_HISTOGRAMS}_sum{text} {value.sum}\n"
