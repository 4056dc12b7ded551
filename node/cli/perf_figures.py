"""The figures of `ottla perf`: latencies and throughput, as Kafka's own tools print them."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

REPORT_S: Final = 5.0  # Kafka's reporting interval
MEGABYTE: Final = 1024 * 1024  # as Kafka's tools count
STEPS_OF_MS: Final = 10  # latencies are counted in steps of a tenth of a millisecond
PRODUCE_PERCENTILES: Final = ("50", "95", "99", "99.9")
END_TO_END_PERCENTILES: Final = ("50", "99", "99.9")


class Latencies:
    """A histogram of latencies in tenths of a millisecond: its size is the number of distinct ones."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._total_ms = 0.0
        self._counts: Counter[int] = Counter()

    def add(self, latencies_ms: Iterable[float]) -> None:
        """Add latencies."""
        for latency_ms in latencies_ms:
            self.count += 1
            self._total_ms += latency_ms
            self.max_ms = max(self.max_ms, latency_ms)
            self._counts[int(latency_ms * STEPS_OF_MS)] += 1

    @property
    def average_ms(self) -> float:
        """Return the mean, or 0 without latencies."""
        return self._total_ms / self.count if self.count else 0.0

    def percentiles_ms(self, which: Sequence[str]) -> dict[str, float]:
        """Return the latency at each percentile."""
        found: dict[str, float] = {}
        ordered = sorted(self._counts.items())
        for name in which:
            rank, passed = float(name) / 100 * self.count, 0
            for step, count in ordered:
                passed += count
                if passed >= rank:
                    found[name] = step / STEPS_OF_MS
                    break
        return found


class ProduceFigures:
    """The acknowledged records: those since the last line, and all of them."""

    def __init__(self) -> None:
        self.records = self.size_bytes = 0
        self.latencies = Latencies()
        self._begun_s = self._window_s = time.monotonic()
        self._window = Latencies()
        self._window_bytes = 0

    def add(self, sizes: Iterable[int], latencies_ms: Sequence[float]) -> None:
        """Add records that were acknowledged together."""
        size_bytes = sum(sizes)
        self.records += len(latencies_ms)
        self.size_bytes += size_bytes
        self._window_bytes += size_bytes
        self.latencies.add(latencies_ms)
        self._window.add(latencies_ms)

    def window(self) -> str | None:
        """Return the line about the last seconds if it is due."""
        now_s = time.monotonic()
        if now_s - self._window_s < REPORT_S:
            return None
        line = _rates(self._window, self._window_bytes, now_s - self._window_s, digits=1)
        self._window, self._window_bytes, self._window_s = Latencies(), 0, now_s
        return f"{line}."

    def line(self) -> str:
        """Return the figures of all records, as kafka-producer-perf-test prints them."""
        rates = _rates(self.latencies, self.size_bytes, time.monotonic() - self._begun_s, digits=2)
        found = self.latencies.percentiles_ms(PRODUCE_PERCENTILES)
        return ", ".join([rates, *(f"{value:.1f} ms {name}th" for name, value in found.items())]) + "."

    def document(self) -> Mapping[str, object]:
        """Return the figures of all records as a JSON object."""
        seconds = time.monotonic() - self._begun_s
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "bytes_per_second": round(self.size_bytes / seconds, 1),
            **latency_document(self.latencies, PRODUCE_PERCENTILES),
        }


def latency_document(latencies: Latencies, percentiles: Sequence[str]) -> dict[str, object]:
    """Return latencies as a JSON object, by their percentiles."""
    return {
        "average_latency_ms": round(latencies.average_ms, 3),
        "max_latency_ms": round(latencies.max_ms, 3),
        "latency_percentiles_ms": latencies.percentiles_ms(percentiles),
    }


def _rates(latencies: Latencies, size_bytes: int, seconds: float, *, digits: int) -> str:
    return (
        f"{latencies.count} records sent, {latencies.count / seconds:.{digits}f} records/sec "
        f"({size_bytes / MEGABYTE / seconds:.2f} MB/sec), {latencies.average_ms:.{digits}f} ms avg latency, "
        f"{latencies.max_ms:.{digits}f} ms max latency"
    )


class ConsumeFigures(NamedTuple):
    """The records that were read, and when reading began and ended, in seconds since 1970."""

    begun_s: float
    ended_s: float
    records: int
    size_bytes: int

    def lines(self) -> tuple[str, str]:
        """Return the head and the line of kafka-consumer-perf-test, with a rebalance time of 0."""
        seconds = max(0.001, self.ended_s - self.begun_s)
        megabytes = self.size_bytes / MEGABYTE
        cells = (
            _moment(self.begun_s),
            _moment(self.ended_s),
            f"{megabytes:.4f}",
            f"{megabytes / seconds:.4f}",
            str(self.records),
            f"{self.records / seconds:.4f}",
            "0",
            f"{seconds * 1000:.0f}",
            f"{megabytes / seconds:.4f}",
            f"{self.records / seconds:.4f}",
        )
        return (
            "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
            "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
            ", ".join(cells),
        )

    def document(self) -> Mapping[str, object]:
        """Return the figures as a JSON object."""
        seconds = max(0.001, self.ended_s - self.begun_s)
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "bytes_per_second": round(self.size_bytes / seconds, 1),
        }


def _moment(seconds: float) -> str:
    """Format a time as Kafka's tool does, in local time."""
    parts = time.localtime(seconds)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', parts)}:{int(seconds % 1 * 1000):03d}"
