"""Families of the loop, the memory and the scrape, and of the process by Prometheus' standard names."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from ottla.node.counters.rest_work import RestWork
from ottla.node.metrics.family import (
    NO_LABELS,
    Family,
    counter,
    gauge,
    histogram,
    info,
    labels,
    library_family,
)
from ottla.node.metrics.loop_watch import LoopWatch
from ottla.node.metrics.readings import NodeReading

_UNREGISTERED: Final = CollectorRegistry()
_PROCESS_IO: Final = Path("/proc/self/io")


class ProcessFamilies:
    """Makes process_* and python_gc_* (memory, CPU, file descriptors), and the disk I/O of the process."""

    def __init__(self) -> None:
        self._collectors = (ProcessCollector(registry=_UNREGISTERED), GCCollector(registry=_UNREGISTERED))

    def collect(self) -> list[Family]:
        families = [library_family(metric) for one in self._collectors for metric in one.collect()]
        return families + _disk_families()


def _disk_families() -> list[Family]:
    """Return the disk I/O by the names of Kafka's LinuxIoMetricsCollector; none if the kernel has none."""
    try:
        fields = dict(line.split(": ", 1) for line in _PROCESS_IO.read_text().splitlines())
        counts = {way: int(fields[f"{way}_bytes"]) for way in ("read", "write")}
    except (OSError, KeyError, ValueError):
        return []
    return [
        gauge(
            f"kafka_server_kafkaserver_linux_disk_{way}_bytes",
            f"Bytes of disk {way}s by this process, not counting the page cache.",
            count,
        )
        for way, count in counts.items()
    ]


def always(version: str, *, is_serving: bool, is_responsive: bool) -> list[Family]:
    """Return the families that every scrape has, in any state of the node."""
    return [
        info("ottla_build_info", "1, with the version of this node as a label.", labels(version=version)),
        gauge("ottla_node_serving", "1 if this node accepts clients.", is_serving),
        gauge(
            "ottla_event_loop_responsive",
            "1 if the event loop of the node answered this scrape.",
            is_responsive,
        ),
    ]


def loop_families(watch: LoopWatch, idle_share: float) -> list[Family]:
    """Return the loop's delay and load; the idle shares of Kafka's thread pools are the loop's idle share."""
    words = "Share of the time (0 to 1) in which the event loop was idle."
    return [
        histogram(
            "ottla_event_loop_lag_seconds",
            "How late timers fire on the event loop, in seconds.",
            [(NO_LABELS, watch.lag)],
        ),
        gauge(
            "ottla_event_loop_lag_max_seconds",
            "Maximum delay of a timer on the event loop since the last scrape.",
            watch.take_worst_s(),
        ),
        gauge(
            "ottla_event_loop_turn_max_seconds",
            "CPU time of the longest turn of the event loop since the last scrape, as far as it was sampled.",
            watch.take_longest_turn_s(),
        ),
        counter(
            "ottla_event_loop_cpu_seconds_total", "CPU time of the thread of the event loop.", watch.cpu_s()
        ),
        gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", words, idle_share),
        gauge("kafka_network_socketserver_networkprocessoravgidle_percent", words, idle_share),
    ]


def memory_families(reading: NodeReading, limit_bytes: int, process_bytes: int) -> list[Family]:
    """Return the families of the memory that the node uses for clients, by part of its budget."""
    parts = [(labels(part=part), uses) for part, uses in reading.memory.items()]
    return [
        gauge(
            "ottla_memory_bytes",
            "Memory in use for client data, by the part of the budget.",
            [(part, used) for part, (used, _) in parts],
        ),
        gauge(
            "ottla_memory_limit_bytes",
            "Memory limit of each part of the budget.",
            [(part, most) for part, (_, most) in parts],
        ),
        gauge(
            "ottla_memory_max_bytes",
            "Memory that the process may use; the budget for client data is 0.6 of it.",
            process_bytes,
        ),
        gauge(
            "ottla_receive_buffer_bytes", "Memory in use for receive buffers.", reading.receive_buffer_bytes
        ),
        gauge("ottla_receive_buffer_limit_bytes", "Memory limit for receive buffers.", limit_bytes),
        gauge(
            "ottla_unsent_bytes",
            "Memory in use for responses that clients read too slowly.",
            reading.unsent_bytes,
        ),
    ]


def rest_families(readings: Sequence[RestWork]) -> list[Family]:
    """Return the families of the REST API's work that is shared fairly among addresses."""
    states = [
        (labels(kind=one.kind, state=state), count)
        for one in readings
        for state, count in (("running", one.running), ("waiting", one.waiting))
    ]
    rejected = [
        (labels(kind=one.kind, reason=reason), count)
        for one in readings
        for reason, count in one.rejected.items()
    ]
    return [
        gauge(
            "ottla_rest_work",
            "Requests, pages of records, live tails and logins of the REST API, in progress and waiting.",
            states,
        ),
        counter(
            "ottla_rest_rejected_total",
            "REST requests rejected with status 429, because the queue of the client "
            "or of the node was full, because they waited too long, or after wrong logins.",
            rejected,
        ),
    ]


def certificate_families(listeners: Sequence[str], refused: Collection[str]) -> list[Family]:
    """Return the family of new certificates that cannot be used; none if no listener has TLS."""
    if not listeners:
        return []
    return [
        gauge(
            "ottla_certificate_refused",
            "1 if the listener keeps its old certificate, because the new one cannot be used.",
            [(labels(listener=name), int(name in refused)) for name in listeners],
        )
    ]


def scrape_families(seconds: Mapping[str, float], left_out: Mapping[str, int]) -> list[Family]:
    """Return the duration of each part of the scrape, and the number of items left out by its limits."""
    parts = [(labels(part=part), took) for part, took in seconds.items()]
    return [
        gauge(
            "ottla_scrape_duration_seconds", "Duration of this scrape in seconds, by what was read.", parts
        ),
        gauge(
            "ottla_scrape_left_out",
            "Items left out of this scrape because of the limits ottla.metrics.*.",
            [(labels(kind=kind), count) for kind, count in left_out.items()],
        ),
    ]
