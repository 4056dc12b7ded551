"""Families of clients' quotas and of connection rates, by the JMX names of Apache Kafka."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from ottla.node.metrics.family import Family, Row, gauge, labels
from ottla.node.metrics.readings import QuotasReading
from ottla.node.quota.client_quotas import QuotaReading

_SOCKETS: Final = "kafka_server_socket_server_metrics"
_THROTTLE_WORDS: Final = "The average throttle time of clients in ms, over the last half minute to minute"


def quota_families(reading: QuotasReading) -> Iterator[Family]:
    """Yield the measurements of clients with a quota, and of connections."""
    yield from _of_kind("produce", "byte_rate", "Bytes produced per second", reading.produced)
    yield from _of_kind("fetch", "byte_rate", "Bytes fetched per second", reading.fetched)
    yield from _of_kind(
        "request", "request_time", "Time of requests in percent of a thread", reading.requests
    )
    yield gauge(
        "kafka_server_request_exempt_request_time",
        "Time of requests that no quota counts, in percent of a thread.",
        reading.exempt_percentage,
    )
    yield from _of_kind(
        "controllermutation", "tokens", "Mutations that the quota allows at once", reading.mutations
    )
    yield gauge(
        "kafka_server_controllermutation_mutation_rate",
        "Partitions created and deleted per second, by user and client id.",
        _rows(reading.mutations, attrgetter("mutation_rate")),
    )
    rates = reading.connections
    yield gauge(
        f"{_SOCKETS}_broker_connection_accept_rate", "Connections accepted per second.", rates.per_second
    )
    yield gauge(
        f"{_SOCKETS}_connection_accept_rate",
        "Connections accepted per second, by listener, and by address if that has a quota.",
        [
            *((labels(listener=one.name), one.per_second) for one in rates.listeners),
            *((labels(ip=address), rate) for address, rate in rates.addresses),
        ],
    )
    yield gauge(
        f"{_SOCKETS}_connection_accept_throttle_time",
        f"{_THROTTLE_WORDS}, because the node or the listener had too many new connections.",
        [(labels(listener=one.name), one.throttle_ms) for one in rates.listeners],
    )
    yield gauge(
        f"{_SOCKETS}_ip_connection_accept_throttle_time",
        f"{_THROTTLE_WORDS}, because their address had too many new connections.",
        [(labels(listener=one.name), one.address_throttle_ms) for one in rates.listeners],
    )


def _of_kind(kind: str, name: str, words: str, readings: Sequence[QuotaReading]) -> Iterator[Family]:
    text = f"{words}, by user and client id."
    yield gauge(f"kafka_server_{kind}_{name}", text, _rows(readings, attrgetter("value")))
    yield gauge(
        f"kafka_server_{kind}_throttle_time",
        f"{_THROTTLE_WORDS}, by user and client id.",
        _rows(readings, attrgetter("throttle_ms")),
    )


def _rows(readings: Sequence[QuotaReading], value: Callable[[QuotaReading], float]) -> list[Row]:
    return [(labels(user=one.user, client_id=one.client_id), value(one)) for one in readings]
