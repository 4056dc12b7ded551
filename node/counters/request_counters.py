"""Counters of the requests of one API: number, time, errors.

Every request is counted and timed, except Produce requests with a known head that are answered at once: every
16th of them is timed and stands for 16, since timing one costs a twentieth of its work. The time runs from
when a request is taken from its connection's buffer until its response is encoded.
"""

from typing import Final

from ottla.logstore.words.latency import LatencyHistogram

SAMPLE_EVERY: Final = 16
SAMPLE_MASK: Final = SAMPLE_EVERY - 1


class RequestCounters:
    """The counters of one version of an API."""

    __slots__ = ("errors", "latency", "name", "requests", "runs", "version")

    def __init__(self, name: str, version: int, latency: LatencyHistogram, errors: dict[int, int]) -> None:
        """`name` is Kafka's name of the API; all versions share latency and errors."""
        self.name = name
        self.version = version
        self.requests = 0
        self.runs = 0  # requests served together count as one
        self.latency = latency
        self.errors = errors  # by error code

    def count_error(self, code: int) -> None:
        """Count an error of a response, or of a partition in it."""
        self.errors[code] = self.errors.get(code, 0) + 1


class AllRequestCounters:
    """The counters of all APIs. One thread creates and increments; others may read `by_version`."""

    __slots__ = ("_errors", "_latencies", "by_version")

    def __init__(self) -> None:
        self.by_version: dict[tuple[str, int], RequestCounters] = {}
        self._latencies: dict[str, LatencyHistogram] = {}
        self._errors: dict[str, dict[int, int]] = {}

    def of(self, name: str, version: int) -> RequestCounters:
        """Return the counters of an API and version, created on first use."""
        found = self.by_version.get((name, version))
        if found is None:
            latency = self._latencies.setdefault(name, LatencyHistogram())
            errors = self._errors.setdefault(name, {})
            found = self.by_version[name, version] = RequestCounters(name, version, latency, errors)
        return found
