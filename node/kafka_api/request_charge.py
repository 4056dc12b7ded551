"""Charges one request to its client: its time, the bytes sent in either direction, and the changes it makes.

If the request takes the client beyond a quota, the response contains the throttle time, and the connection is
throttled for it from then on, as in Apache Kafka. Of several quotas the longest throttle time counts.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from ottla.node.net.connection import Connection
from ottla.node.quota.client_quotas import PERCENT_PER_SECOND, ClientQuotas
from ottla.node.quota.request_meter import MeteredSteps, RequestMeter
from ottla.node.wire.api_keys import ApiKey

T = TypeVar("T")

# Requests that only nodes send in Apache Kafka, so no client is charged for them.
EXEMPT_APIS: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})


class RequestCharge:
    """The charges of one request of a client that has a quota."""

    __slots__ = (
        "_client_id",
        "_connection",
        "_decided_ms",
        "_is_exempt",
        "_mutated_ms",
        "_principal",
        "_produced_ms",
        "_quotas",
        "meter",
    )

    def __init__(
        self, quotas: ClientQuotas, connection: Connection, api_key: int, client_id: str | None
    ) -> None:
        self._quotas = quotas
        self._connection = connection
        self._principal = connection.info.access.principal
        self._client_id = client_id
        self._is_exempt = api_key in EXEMPT_APIS
        self._decided_ms: int | None = None
        self._produced_ms = 0
        self._mutated_ms = 0
        self.meter = RequestMeter()

    # ---- the time of the request -------------------------------------------------------------------------

    def run(self, work: Callable[[], T]) -> T:
        """Do a part of the request and count its time; if the part raises, the charge is decided with it."""
        try:
            return self.meter.run(work)
        except Exception:
            self.decide()
            raise

    def steps(self, work: Awaitable[T]) -> Coroutine[Any, Any, T]:
        """Return a coroutine that does the work and counts the time of its steps."""
        return cast("Coroutine[Any, Any, T]", MeteredSteps(work, self.meter))

    # ---- bytes and mutations -----------------------------------------------------------------------------

    def count_produced(self, size_bytes: int) -> None:
        """Count the bytes of a Produce request."""
        self._produced_ms = self._quotas.produced.record(self._principal, self._client_id, size_bytes)

    def note_mutation_throttle(self, throttle_ms: int) -> None:
        """Record how long (ms) the controller wants the client to wait."""
        self._mutated_ms = max(self._mutated_ms, throttle_ms)

    def most_fetched_bytes(self) -> int | None:
        """Return the size above which a fetch response is throttled for certain; None without a quota."""
        return self._quotas.fetched.most_at_once(self._principal, self._client_id)

    def count_fetched(self, size_bytes: int) -> int:
        """Count the bytes of the response to a fetch; return its throttle time (ms), and throttle the client.

        If that is not 0, the response must be empty, and its bytes do not count.
        """
        fetched, principal, client_id = self._quotas.fetched, self._principal, self._client_id
        fetched_ms = fetched.record(principal, client_id, size_bytes)
        request_ms = self._request_ms()
        throttle_ms = max(fetched_ms, request_ms)
        if throttle_ms:
            fetched.add(principal, client_id, -size_bytes)
            exceeded = fetched if fetched_ms > request_ms else self._quotas.requests
            exceeded.record_throttle(principal, client_id, throttle_ms)
        self._decide(throttle_ms)
        return throttle_ms

    # ---- the decision ------------------------------------------------------------------------------------

    def decide(self, *, is_answered: bool = True) -> int:
        """Return the throttle time (ms) for the response, and throttle the connection for it.

        The time of a request without a response is charged to no client, as in Apache Kafka. Later calls
        return the first result.
        """
        if self._decided_ms is not None:
            return self._decided_ms
        self._is_exempt = self._is_exempt or not is_answered
        quotas, principal, client_id = self._quotas, self._principal, self._client_id
        request_ms, produced_ms, mutated_ms = self._request_ms(), self._produced_ms, self._mutated_ms
        throttle_ms = max(request_ms, produced_ms, mutated_ms)
        if produced_ms > request_ms:
            quotas.produced.record_throttle(principal, client_id, throttle_ms)
        elif request_ms and request_ms >= mutated_ms:  # else the controller has counted it
            quotas.requests.record_throttle(principal, client_id, throttle_ms)
        self._decide(throttle_ms)
        return throttle_ms

    def settle(self) -> None:
        """Count the time spent since the decision, in which the response was encoded."""
        seconds = self.meter.take()
        if self._is_exempt:
            self._quotas.add_exempt(seconds)
        else:
            self._quotas.requests.add(self._principal, self._client_id, seconds * PERCENT_PER_SECOND)

    def _request_ms(self) -> int:
        seconds = self.meter.take()
        if self._is_exempt:
            self._quotas.add_exempt(seconds)
            return 0
        percent = seconds * PERCENT_PER_SECOND
        return self._quotas.requests.record(self._principal, self._client_id, percent)

    def _decide(self, throttle_ms: int) -> None:
        self._decided_ms = throttle_ms
        if throttle_ms:
            self._connection.throttle(throttle_ms)
