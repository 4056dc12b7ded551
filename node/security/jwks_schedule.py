"""The times at which keys of an OAuth provider are fetched. Pure: times are arguments.

They are fetched every `refresh_ms`, after a failure again and again with growing pauses, and soon when a
token names a key that is not known, since the provider may have a new one. Whoever makes up ids of keys
causes no storm: each id counts once a minute, `MAX_REMEMBERED` are remembered, and two fetches have a pause
between them.
"""

from collections import OrderedDict
from typing import Final

from ottla.node.settings.oauthbearer_settings import JwksPauses

# Kafka's numbers.
UNKNOWN_KID_PAUSE_MS: Final = 60_000
MAX_REMEMBERED: Final = 16
# Between fetches that tokens ask for. A key that is new is known so soon, however many others are asked for.
ASKED_PAUSE_MS: Final = 10_000


class JwksSchedule:
    """The time of the next fetch, `due_ms`."""

    def __init__(self, pauses: JwksPauses) -> None:
        self.due_ms = 0
        self._pauses = pauses
        self._failures = 0
        self._fetched_ms = -ASKED_PAUSE_MS
        self._asked: OrderedDict[str, int] = OrderedDict()  # key id -> until when it counts no more

    def fetched(self, now_ms: int) -> None:
        """Note that the keys were fetched."""
        self._failures, self._fetched_ms = 0, now_ms
        self.due_ms = now_ms + self._pauses.refresh_ms

    def failed(self, now_ms: int) -> None:
        """Note that a fetch failed."""
        pause_ms = self._pauses.retry_backoff_ms << min(self._failures, 20)
        self._failures += 1
        self._fetched_ms = now_ms
        self.due_ms = now_ms + min(pause_ms, self._pauses.retry_backoff_max_ms)

    def ask(self, kid: str, now_ms: int) -> bool:
        """Return whether keys are to be fetched soon, since a token has this one, which is not known."""
        if self._asked.get(kid, 0) > now_ms:
            return False
        self._asked[kid] = now_ms + UNKNOWN_KID_PAUSE_MS
        self._asked.move_to_end(kid)
        if len(self._asked) > MAX_REMEMBERED:
            self._asked.popitem(last=False)
        soon_ms = max(now_ms, self._fetched_ms + ASKED_PAUSE_MS)
        if soon_ms >= self.due_ms:
            return False
        self.due_ms = soon_ms
        return True
