"""Figures of `ottla perf`: latencies and throughput, in the words of Kafka's own tools."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

REPORT_S: Final = 5.0  # Kafka's reporting interval
MEGABYTE: Final = 1024 * 1024  # as Kafka's tools count
STEPS_OF_MS: Final = 10  # latencies are counted by tenths of a millisecond
PRODUCE_PERCENTILES: Final = ("50", "95", "99", "99.9")
END_TO_END_PERCENTILES: Final = ("50", "99", "99.9")


class Latencies:
    """Latencies counted by tenths of a millisecond: as many as there are different ones, not records."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0.0
        self._total_ms = 0.0
        self._counts: Counter[int] = Counter()

    def add(self, latencies_ms: Iterable[float]) -> None:
        """Count more of them."""
        for latency_ms in latencies_ms:
            self.count += 1
            self._total_ms += latency_ms
            self.max_ms = max(self.max_ms, latency_ms)
            self._counts[int(latency_ms * STEPS_OF_MS)] += 1

    @property
    def average_ms(self) -> float:
        """The mean; 0 of none."""
        return self._total_ms / self.count if self.count else 0.0

    def percentiles_ms(self, which: Sequence[str]) -> dict[str, float]:
        """Return the latency that this part of all is below, by the part in percent."""
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
    """Records that were acknowledged: since the last line, and all of them."""

    def __init__(self) -> None:
        self.records = self.size_bytes = 0
        self.latencies = Latencies()
        self._begun_s = self._window_s = time.monotonic()
        self._window = Latencies()
        self._window_bytes = 0

    def add(self, sizes: Iterable[int], latencies_ms: Sequence[float]) -> None:
        """Count records that were acknowledged together."""
        size_bytes = sum(sizes)
        self.records += len(latencies_ms)
        self.size_bytes += size_bytes
        self._window_bytes += size_bytes
        self.latencies.add(latencies_ms)
        self._window.add(latencies_ms)

    def window(self) -> str | None:
        """Return the line of the last seconds when it is time for one."""
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
        """Return the same for programs."""
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
    """Return latencies for programs, by the names of their percentiles."""
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
    """Records that were read, and from when to when, in seconds since 1970."""

    begun_s: float
    ended_s: float
    records: int
    size_bytes: int

    def lines(self) -> tuple[str, str]:
        """Return the head and the line of kafka-consumer-perf-test, without a group that rebalances."""
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
        """Return the same for programs."""
        seconds = max(0.001, self.ended_s - self.begun_s)
        return {
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "bytes_per_second": round(self.size_bytes / seconds, 1),
        }


def _moment(seconds: float) -> str:
    """Return a moment as Kafka's tool prints it, in local time."""
    parts = time.localtime(seconds)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', parts)}:{int(seconds % 1 * 1000):03d}"
