"""A token bucket refilled at the rate of a quota, identical to the last bit to Apache Kafka's `TokenBucket`.

One large request may take more tokens than there are; the next one waits only until they are refilled. A rate
would stay above the quota until the request has left all windows (KIP-599).
"""

from ottla.node.quota.rate import MAX_THROTTLE_MS, Windows, rounded


class TokenBucket:
    """The tokens of one client; the bucket starts full. The quota may change between calls."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return the number of tokens; below 0 the quota is exhausted."""
        most = self._most(quota)
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + quota * ((now_ms - self._updated_ms) / 1_000.0))
        self._updated_ms = now_ms
        return self._tokens

    def take(self, quota: float, value: float, now_ms: int) -> None:
        """Take tokens, even if the bucket becomes negative."""
        self._tokens = min(self._most(quota), self.tokens(quota, now_ms) - value)

    def take_if_any(self, quota: float, value: float, now_ms: int) -> int | None:
        """Take tokens and return None; if the quota is exhausted, take none and return the wait (ms)."""
        if self.tokens(quota, now_ms) < 0:
            return self.throttle_ms(quota, now_ms)  # May round to 0.
        self.take(quota, value, now_ms)
        return None

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return the time (ms) until the bucket is at 0 again, 0 if it is not negative."""
        tokens = self.tokens(quota, now_ms)
        return rounded(min(-tokens / quota * 1_000, float(MAX_THROTTLE_MS))) if tokens < 0 else 0

    def _most(self, quota: float) -> float:
        return self._windows.samples * (self._windows.window_ms / 1_000.0) * quota
