"""Families of requests, topics and connections, by the names that Strimzi's rules give to Kafka's meters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Final

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.latency import LatencyHistogram
from ottla.node.counters.node_counts import request_counts
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.counters.topic_counters import DELETED_TOPICS, TopicCounters
from ottla.node.metrics.family import (
    NO_LABELS,
    Family,
    LabelText,
    Row,
    counter,
    gauge,
    histogram,
    labels,
    summary_ms,
)
from ottla.node.metrics.readings import ListenerReading
from ottla.node.settings.rest_security_settings import REST

# (name, attribute of TopicCounters, words); as in Kafka, each exists by topic and as a sum.
_TOPIC_METERS: Final = (
    ("messagesin", "messages_in", "Records appended by leaders"),
    ("bytesin", "bytes_in", "Bytes of batches appended by leaders"),
    ("bytesout", "bytes_out", "Bytes of batches sent to consumers"),
    ("bytesrejected", "bytes_rejected", "Bytes of batches rejected as too large"),
    ("totalproducerequests", "total_produce_requests", "Batches in produce requests to leaders"),
    ("totalfetchrequests", "total_fetch_requests", "Partitions in fetch requests to leaders"),
    ("failedproducerequests", "failed_produce_requests", "Batches rejected because of an unexpected error"),
    ("failedfetchrequests", "failed_fetch_requests", "Partitions not fetched because of an unexpected error"),
    ("totalsharefetchrequests", "total_share_fetch_requests", "Share fetches with partitions of a topic"),
    ("failedsharefetchrequests", "failed_share_fetch_requests", "Share fetches with errors of a topic"),
    (
        "totalshareacknowledgementrequests",
        "total_share_acknowledge_requests",
        "Acknowledgements with partitions of a topic",
    ),
    (
        "failedshareacknowledgementrequests",
        "failed_share_acknowledge_requests",
        "Acknowledgements with errors of a topic",
    ),
)
_REPLICATION_METERS: Final = (
    ("replicationbytesin", "replication_bytes_in", "Bytes of batches copied from leaders"),
    ("replicationbytesout", "replication_bytes_out", "Bytes of batches sent to followers"),
)


def topic_families(topics: Mapping[str, TopicCounters], max_topics: int) -> Iterator[Family]:
    """Yield kafka_server_brokertopicmetrics_*: the sum of all topics, and the first `max_topics` one by one.

    Deleted topics are in the sum only.
    """
    first = islice((topic for topic in topics if topic != DELETED_TOPICS), max_topics)
    shown = [(labels(topic=topic), topics[topic]) for topic in first]
    for name, attribute, words in _TOPIC_METERS:
        yield _topic_family(name, attrgetter(attribute), words, topics, shown)
    for name, attribute, words in _REPLICATION_METERS:
        yield _topic_family(name, attrgetter(attribute), words, topics, ())


def _topic_family(
    name: str,
    count: Callable[[TopicCounters], int],
    words: str,
    topics: Mapping[str, TopicCounters],
    shown: Iterable[tuple[LabelText, TopicCounters]],
) -> Family:
    total: Row = (NO_LABELS, sum(map(count, topics.values())))
    rows = chain((total,), ((text, count(counters)) for text, counters in shown))
    return counter(f"kafka_server_brokertopicmetrics_{name}_total", f"{words}.", rows)


def request_families(
    requests: Sequence[RequestCounters],
    latencies: Mapping[str, LatencyHistogram],
    recent: Mapping[str, Sequence[int]],
) -> list[Family]:
    """Return kafka_network_requestmetrics_*; quantiles are computed from the `recent` counts by API."""
    counts = request_counts(requests)
    errors = {one.name: one.errors for one in requests if one.errors}
    return [
        counter(
            "kafka_network_requestmetrics_requests_total",
            "Requests by API and version.",
            [
                (labels(request=name, version=version), count)
                for (name, version), count in sorted(counts.items())
            ],
        ),
        counter(
            "kafka_network_requestmetrics_errors_total",
            "Errors of responses, and of partitions in responses, by API and error code.",
            [
                (labels(request=name, error=_error_name(code)), count)
                for name, by_code in sorted(errors.items())
                for code, count in sorted(dict(by_code).items())
            ],
        ),
        summary_ms(
            "kafka_network_requestmetrics_totaltimems",
            "Time from decoding a request until its response is ready, in ms; quantiles over "
            "the last minutes.",
            [
                (labels(request=name), times, recent.get(name, times.counts))
                for name, times in sorted(latencies.items())
            ],
        ),
        histogram(
            "ottla_request_duration_seconds",
            "Time from decoding a request until its response is ready, in seconds.",
            [(labels(request=name), times) for name, times in sorted(latencies.items())],
        ),
    ]


def audit_families(events: Mapping[str, int], lost_lines: int) -> list[Family]:
    """Return ottla_audit_*: the numbers of audited events, and of lines lost."""
    return [
        counter(
            "ottla_audit_events_total",
            "Rejected requests, failed logins and changes of the cluster that the audit log received.",
            [(labels(kind=kind), count) for kind, count in events.items()],
        ),
        counter(
            "ottla_audit_lost_lines_total",
            "Lines that could not be written to the audit file.",
            [(NO_LABELS, lost_lines)],
        ),
    ]


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


_LOGINS: Final = (
    (
        "successful_authentication",
        "successful",
        "Clients that logged in, or completed the TLS handshake if no login is required.",
    ),
    ("failed_authentication", "failed", "Clients whose login or TLS handshake failed."),
    (
        "successful_reauthentication",
        "successful_again",
        "Clients that logged in again over an open connection.",
    ),
    (
        "failed_reauthentication",
        "failed_again",
        "Clients that failed to log in again over an open connection.",
    ),
    (
        "expired_connections_killed",
        "expired",
        "Connections closed because their login had expired.",
    ),
)


def connection_families(
    listeners: Sequence[ListenerReading], rest_logins: Mapping[str, int] | None = None
) -> list[Family]:
    """Return kafka_server_socket_server_metrics_*; the loop is the only network processor.

    `rest_logins` has the logins of the REST API by the names of `LoginCounts`; None if it has no logins.
    """
    logins = [(one.name, one.logins) for one in listeners]
    if rest_logins is not None:
        logins.append((REST, rest_logins))

    def rows(values: Iterable[tuple[ListenerReading, int]]) -> list[Row]:
        return [(labels(listener=one.name, networkProcessor=0), value) for one, value in values]

    prefix = "kafka_server_socket_server_metrics"
    open_now = rows((one, one.connections) for one in listeners)
    return [
        gauge(f"{prefix}_connection_count", "Open connections.", open_now),
        gauge("kafka_server_socketservermetrics_connection_count", "Open connections.", open_now),
        counter(
            f"{prefix}_connection_creation_total",
            "Connections accepted.",
            rows((one, one.accepted) for one in listeners),
        ),
        counter(
            f"{prefix}_connection_close_total",
            "Connections closed.",
            rows((one, one.accepted - one.connections) for one in listeners),
        ),
        *(
            counter(
                f"{prefix}_{name}_total",
                text,
                [(labels(listener=where, networkProcessor=0), counts[field]) for where, counts in logins],
            )
            for name, field, text in _LOGINS
        ),
        gauge(
            f"{prefix}_connections_software",
            "Open connections by client software.",
            [
                (
                    labels(
                        clientSoftwareName=name,
                        clientSoftwareVersion=version,
                        listener=one.name,
                        networkProcessor=0,
                    ),
                    count,
                )
                for one in listeners
                for (name, version), count in sorted(one.software.items())
            ],
        ),
    ]
