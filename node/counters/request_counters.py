"""What a node counts of the requests of one API: how many, how long, with which errors.

Every request counts, and is timed; but of those Produce requests that are known by their head and answered at
once only every 16th, which stands for 16: to time one costs a twentieth of its work. Time runs from when a
request is taken out of its connection's buffer until its answer is encoded.
"""

from typing import Final

from ottla.logstore.words.latency import LatencyHistogram

SAMPLE_EVERY: Final = 16
SAMPLE_MASK: Final = SAMPLE_EVERY - 1


class RequestCounters:
    """Of one API in one version."""

    __slots__ = ("errors", "latency", "name", "requests", "runs", "version")

    def __init__(self, name: str, version: int, latency: LatencyHistogram, errors: dict[int, int]) -> None:
        """`name` is the API's, as Kafka writes it; latency and errors are those of all of its versions."""
        self.name = name
        self.version = version
        self.requests = 0
        self.runs = 0  # requests that were served together count as one
        self.latency = latency
        self.errors = errors  # by error code

    def count_error(self, code: int) -> None:
        """An answer, or a partition in it, has this error."""
        self.errors[code] = self.errors.get(code, 0) + 1


class AllRequestCounters:
    """Of all APIs of a node; one thread makes and adds, others may read `by_version`'s values."""

    __slots__ = ("_errors", "_latencies", "by_version")

    def __init__(self) -> None:
        self.by_version: dict[tuple[str, int], RequestCounters] = {}
        self._latencies: dict[str, LatencyHistogram] = {}
        self._errors: dict[str, dict[int, int]] = {}

    def of(self, name: str, version: int) -> RequestCounters:
        """Those of an API and version, made when asked for first."""
        found = self.by_version.get((name, version))
        if found is None:
            latency = self._latencies.setdefault(name, LatencyHistogram())
            errors = self._errors.setdefault(name, {})
            found = self.by_version[name, version] = RequestCounters(name, version, latency, errors)
        return found
