"""Tokens that come back at the rate of a quota, to the last bit as Apache Kafka's `TokenBucket` counts them.

One large request takes more tokens than there are, and who asks next waits for no longer than until they are
back. A rate would stay beyond the quota until the request has left all windows (KIP-599).
"""

from ottla.node.quota.rate import MAX_THROTTLE_MS, Windows, rounded


class TokenBucket:
    """The tokens of one client; it begins full. The quota may be another one each time."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._updated_ms = 0

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return how many tokens there are; below 0 the quota is exhausted."""
        most = self._most(quota)
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + quota * ((now_ms - self._updated_ms) / 1_000.0))
        self._updated_ms = now_ms
        return self._tokens

    def take(self, quota: float, value: float, now_ms: int) -> None:
        """Take tokens, also such as are not there yet."""
        self._tokens = min(self._most(quota), self.tokens(quota, now_ms) - value)

    def take_if_any(self, quota: float, value: float, now_ms: int) -> int | None:
        """Take tokens and return None; while the quota is exhausted take none and return how long to wait."""
        if self.tokens(quota, now_ms) < 0:
            return self.throttle_ms(quota, now_ms)  # It may be 0, rounded.
        self.take(quota, value, now_ms)
        return None

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long it takes until there are 0 tokens again, 0 if there are."""
        tokens = self.tokens(quota, now_ms)
        return rounded(min(-tokens / quota * 1_000, float(MAX_THROTTLE_MS))) if tokens < 0 else 0

    def _most(self, quota: float) -> float:
        return self._windows.samples * (self._windows.window_ms / 1_000.0) * quota
