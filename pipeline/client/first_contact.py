"""The judgement of connections that nodes end: a node may be stopping, or want something else of a client.

A node that stops ends a connection without an error, and so does a listener that wants TLS, a certificate or
a login. As long as no node of a cluster has answered, the second is as likely, and waiting would not cure it.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.client.clock import monotonic_ms

# A node that starts or stops ends connections for a second or two, and a proxy until another node is there.
RETRY_MS: Final = 15_000


class FirstContact:
    """The state of one cluster's first contact, shared by its connections."""

    def __init__(self) -> None:
        self.has_answered = False
        self._ended_since_ms: int | None = None

    def note_answer(self) -> None:
        """Remember that a node has answered a request that only admitted clients get an answer to."""
        self.has_answered = True

    def error_of_ended_connection(self, detail: str) -> KafkaError:
        """Return the error for a connection that a node ended before it answered such a request.

        It is NETWORK_EXCEPTION at first, and INVALID_CONFIG, which is not retried, once this goes on for
        `RETRY_MS`.
        """
        now_ms = monotonic_ms()
        if self._ended_since_ms is None:
            self._ended_since_ms = now_ms
        is_permanent = not self.has_answered and now_ms - self._ended_since_ms >= RETRY_MS
        return KafkaError(ErrorCode.INVALID_CONFIG if is_permanent else ErrorCode.NETWORK_EXCEPTION, detail)
