"""The schedule of fetching the keys of an OAuth provider. Pure: times are arguments.

Keys are fetched every `refresh_ms`, after a failure repeatedly with growing pauses, and soon after a token
names an unknown key, since the provider may have added one. Clients that invent key ids cannot cause a storm
of fetches: each id counts once a minute, the last `MAX_REMEMBERED` ids are remembered, and fetches that
tokens cause are at least `TOKEN_FETCH_PAUSE_MS` apart.
"""

from collections import OrderedDict
from typing import Final

from ottla.node.settings.oauthbearer_settings import JwksPauses

# Kafka's numbers.
UNKNOWN_KID_PAUSE_MS: Final = 60_000
MAX_REMEMBERED: Final = 16
# Between fetches that tokens cause: a new key is fetched this soon, however many unknown ids clients send.
TOKEN_FETCH_PAUSE_MS: Final = 10_000


class JwksSchedule:
    """The time of the next fetch, `due_ms`."""

    def __init__(self, pauses: JwksPauses) -> None:
        self.due_ms = 0
        self._pauses = pauses
        self._failures = 0
        self._fetched_ms = -TOKEN_FETCH_PAUSE_MS
        # key id -> the time (ms) until which it is ignored
        self._ignored_until: OrderedDict[str, int] = OrderedDict()

    def fetched(self, now_ms: int) -> None:
        """Schedule the next fetch after a successful one."""
        self._failures, self._fetched_ms = 0, now_ms
        self.due_ms = now_ms + self._pauses.refresh_ms

    def failed(self, now_ms: int) -> None:
        """Schedule the next fetch after a failed one, with exponential backoff."""
        pause_ms = self._pauses.retry_backoff_ms << min(self._failures, 20)
        self._failures += 1
        self._fetched_ms = now_ms
        self.due_ms = now_ms + min(pause_ms, self._pauses.retry_backoff_max_ms)

    def ask(self, kid: str, now_ms: int) -> bool:
        """Schedule a fetch for a token's unknown key id; return True if the next fetch is earlier now."""
        if self._ignored_until.get(kid, 0) > now_ms:
            return False
        self._ignored_until[kid] = now_ms + UNKNOWN_KID_PAUSE_MS
        self._ignored_until.move_to_end(kid)
        if len(self._ignored_until) > MAX_REMEMBERED:
            self._ignored_until.popitem(last=False)
        soon_ms = max(now_ms, self._fetched_ms + TOKEN_FETCH_PAUSE_MS)
        if soon_ms >= self.due_ms:
            return False
        self.due_ms = soon_ms
        return True
