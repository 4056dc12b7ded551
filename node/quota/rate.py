"""A rate over sliding windows, identical to the last bit to Apache Kafka's `Rate` over a `SampledStat`.

Values are summed in samples. A sample starts with a value and is complete after one window. The rate is the
sum of the samples that have not expired, divided by the time since the oldest started. A new client is
measured over all windows but one, so its first request does not look like a flood.
"""

from typing import Final, NamedTuple

MAX_THROTTLE_MS: Final = 2**31 - 1  # an int32 in each response


class Windows(NamedTuple):
    """The time over which a rate is measured: `quota.window.num` and `quota.window.size.seconds`."""

    samples: int = 11
    window_ms: int = 1_000


class _Sample:
    """The sum of the values of about one window."""

    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_event_ms = now_ms
        self.value = 0.0


class Rate:
    """The rate of one client."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back a value recorded just now."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._windows.window_ms:
            # One more than configured: the oldest overlaps the start of the measured time.
            self._current = (self._current + 1) % (self._windows.samples + 1)
            if self._current >= len(samples):
                samples.append(_Sample(now_ms))
            else:
                samples[self._current].reset(now_ms)
            sample = samples[self._current]
        sample.value += value
        sample.last_event_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate over the measured time."""
        self._forget(now_ms)
        total = 0.0
        for sample in self._samples:
            total += sample.value
        return total / (self.measured_ms(now_ms) / 1_000.0)

    def measured_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured, at least 1."""
        samples, window_ms = self._windows
        self._forget(now_ms)
        if not self._samples:
            self._samples.append(_Sample(now_ms))  # the measured time starts with the first reading
        elapsed = now_ms - min(sample.start_ms for sample in self._samples)
        missing = samples - 1 - elapsed // window_ms
        if missing > 0:
            elapsed += missing * window_ms
        return max(elapsed, 1)

    def throttle_ms(self, quota: float, now_ms: int, *, max_ms: int = MAX_THROTTLE_MS) -> int:
        """Return how long the client must wait until its rate is within the quota, 0 if it is.

        It waits for at most `max_ms`: one window for requests and connections; for bytes there is no limit
        but that of the field in responses.
        """
        rate = self.per_second(now_ms)
        if rate <= quota:
            return 0
        # Rounded last: with the smallest quotas the time is infinite.
        return rounded(min((rate - quota) / quota * self.measured_ms(now_ms), float(max_ms)))

    def _forget(self, now_ms: int) -> None:
        """Reset the samples that lie entirely before the measured time."""
        oldest_ms = now_ms - self._windows.samples * self._windows.window_ms
        for sample in self._samples:
            if sample.last_event_ms <= oldest_ms:
                sample.reset(now_ms)


def most_in_windows(quota: float, windows: Windows) -> float:
    """Return the largest value that a new client can record at once without being throttled."""
    return quota * (windows.samples - 1) * (windows.window_ms / 1_000.0)


def rounded(value: float) -> int:
    """Round half up, as Java does."""
    whole = int(value // 1)
    return whole + (value - whole >= 0.5)
