"""Measures the load that clients put on a node against the quotas of the cluster.

While no quota is set, `are_set` is false, and a request looks at nothing else.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.metadata_raft.commands import MutationPayer
from ottla.metadata_raft.image import QuotaEntity
from ottla.metadata_raft.mutation_charge import FREE, Taken
from ottla.node.quota.quota_buckets import QuotaBuckets
from ottla.node.quota.quota_entities import ClientQuota, QuotaEntities, QuotaSharers
from ottla.node.quota.rate import MAX_THROTTLE_MS, Rate, Windows, most_in_windows
from ottla.node.quota.throttle_times import ThrottleTimes
from ottla.node.quota.token_bucket import TokenBucket

ImageQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

PERCENT_PER_SECOND: Final = 100.0  # one second of each second is a whole thread
_RATE_WINDOWS: Final = Windows(2, 30_000)  # of rates that no quota limits: they are only shown


class QuotaReading(NamedTuple):
    """The measurements of the clients that share a quota."""

    user: str
    client_id: str
    value: float  # a rate, or the number of tokens
    mutation_rate: float  # only of controller mutations
    throttle_ms: float  # the average throttle time over the last half minute to minute


class _Measured:
    __slots__ = ("rate", "throttled")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows)
        self.throttled = ThrottleTimes()


class RateQuotas:
    """The quotas of one kind, such as producer_byte_rate, and the measured rates of clients."""

    def __init__(
        self,
        key: str,
        windows: Windows,
        now_ms: Callable[[], int],
        *,
        max_throttle_ms: int = MAX_THROTTLE_MS,
    ) -> None:
        self._key = key
        self._windows = windows
        self._now_ms = now_ms
        self._max_throttle_ms = max_throttle_ms
        self._entities = QuotaEntities({}, key)
        self._measured: QuotaBuckets[QuotaSharers, _Measured] = QuotaBuckets(lambda: _Measured(windows))
        self.are_set = False

    def set(self, client_quotas: ImageQuotas) -> None:
        """Replace the quotas, and keep what was measured."""
        self._entities = QuotaEntities({}, self._key)
        self.follow(client_quotas, client_quotas)

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Apply the changed quotas of these entities."""
        self._entities.follow(client_quotas, changed)
        self.are_set = bool(self._entities)

    def has(self, principal: str, client_id: str | None) -> bool:
        """Return True if the client has a quota; `principal` is "TYPE:NAME"."""
        return self._quota_of(principal, client_id) is not None

    def record(self, principal: str, client_id: str | None, value: float) -> int:
        """Count a value of a client; return its throttle time (ms), 0 within its quota or without one."""
        quota = self._quota_of(principal, client_id)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        rate = self._measured.of(quota.sharers, now_ms).rate
        rate.record(float(value), now_ms)
        return rate.throttle_ms(quota.limit, now_ms, max_ms=self._max_throttle_ms)

    def add(self, principal: str, client_id: str | None, value: float) -> None:
        """Count a value without throttling; a negative value takes back what was counted."""
        quota = self._quota_of(principal, client_id)
        if quota is not None:
            now_ms = self._now_ms()
            self._measured.of(quota.sharers, now_ms).rate.record(float(value), now_ms)

    def record_throttle(self, principal: str, client_id: str | None, throttle_ms: int) -> None:
        """Record the throttle time of a client, for the metrics."""
        quota = self._quota_of(principal, client_id)
        if quota is not None:
            now_ms = self._now_ms()
            self._measured.of(quota.sharers, now_ms).throttled.record(throttle_ms, now_ms)

    def most_at_once(self, principal: str, client_id: str | None) -> int | None:
        """Return the value above which a single use exceeds the quota; None without a quota."""
        quota = self._quota_of(principal, client_id)
        return None if quota is None else int(min(most_in_windows(quota.limit, self._windows), 2**63))

    def readings(self, limit: int) -> list[QuotaReading]:
        """Return the current measurements of the clients seen most recently, at most `limit`."""
        now_ms = self._now_ms()
        return [
            QuotaReading(
                sharers.user or "",
                sharers.client_id or "",
                one.rate.per_second(now_ms),
                0.0,
                one.throttled.average_ms(now_ms),
            )
            for sharers, one in self._measured.latest(limit, now_ms)
            if self._entities.of_client(sharers.user or "", sharers.client_id) is not None
        ]

    def _quota_of(self, principal: str, client_id: str | None) -> ClientQuota | None:
        return self._entities.of_client(_name_of(principal), client_id)


class _Mutated:
    __slots__ = ("rate", "throttled", "tokens")

    def __init__(self, windows: Windows) -> None:
        self.tokens = TokenBucket(windows)
        self.rate = Rate(_RATE_WINDOWS)
        self.throttled = ThrottleTimes()


class MutationQuotas:
    """The quotas of controller mutations (KIP-599), and the token buckets of clients."""

    def __init__(self, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entities = QuotaEntities({}, CONTROLLER_MUTATION_RATE)
        self._mutated: QuotaBuckets[QuotaSharers, _Mutated] = QuotaBuckets(lambda: _Mutated(windows))
        self.are_set = False

    def set(self, client_quotas: ImageQuotas) -> None:
        """Replace the quotas, and keep the tokens."""
        self._entities = QuotaEntities({}, CONTROLLER_MUTATION_RATE)
        self.follow(client_quotas, client_quotas)

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Apply the changed quotas of these entities."""
        self._entities.follow(client_quotas, changed)
        self.are_set = bool(self._entities)

    def has(self, principal: str, client_id: str | None) -> bool:
        """Return True if the client has a quota; `principal` is "TYPE:NAME"."""
        return self._quota_of(principal, client_id) is not None

    def take(self, payer: MutationPayer, mutations: int) -> Taken:
        """Take a token for each mutation; return whether they are rejected, and the throttle time (ms).

        While the quota is exhausted, the mutations of a strict payer are rejected and take no tokens. Those
        of any other payer are accepted, and the client has to wait afterwards.
        """
        quota = self._quota_of(payer.principal, payer.client_id)
        if quota is None:
            return FREE
        now_ms = self._now_ms()
        mutated = self._mutated.of(quota.sharers, now_ms)
        if payer.is_strict:
            wait_ms = mutated.tokens.take_if_any(quota.limit, mutations, now_ms)
            if wait_ms is not None:
                if wait_ms:
                    mutated.throttled.record(wait_ms, now_ms)
                return Taken(True, wait_ms)
            throttle_ms = 0
        else:
            mutated.tokens.take(quota.limit, mutations, now_ms)
            throttle_ms = mutated.tokens.throttle_ms(quota.limit, now_ms)
        mutated.rate.record(float(mutations), now_ms)
        if throttle_ms:
            mutated.throttled.record(throttle_ms, now_ms)
        return Taken(False, throttle_ms)

    def readings(self, limit: int) -> list[QuotaReading]:
        """Return the current measurements of the clients seen most recently, at most `limit`."""
        now_ms = self._now_ms()
        found = []
        for sharers, one in self._mutated.latest(limit, now_ms):
            quota = self._entities.of_client(sharers.user or "", sharers.client_id)
            if quota is not None:
                tokens, mutations = one.tokens.tokens(quota.limit, now_ms), one.rate.per_second(now_ms)
                user, client_id = sharers.user or "", sharers.client_id or ""
                throttle_ms = one.throttled.average_ms(now_ms)
                found.append(QuotaReading(user, client_id, tokens, mutations, throttle_ms))
        return found

    def _quota_of(self, principal: str, client_id: str | None) -> ClientQuota | None:
        return self._entities.of_client(_name_of(principal), client_id)


class ClientQuotas:
    """All quotas of clients on one node."""

    def __init__(self, windows: Windows, controller_windows: Windows, now_ms: Callable[[], int]) -> None:
        self.produced = RateQuotas(PRODUCER_BYTE_RATE, windows, now_ms)
        self.fetched = RateQuotas(CONSUMER_BYTE_RATE, windows, now_ms)
        self.requests = RateQuotas(REQUEST_PERCENTAGE, windows, now_ms, max_throttle_ms=windows.window_ms)
        self.mutations = MutationQuotas(controller_windows, now_ms)
        self.exempt = Rate(_RATE_WINDOWS)  # the time of requests that count for no quota, in % of a thread
        self._now_ms = now_ms
        self.are_set = False  # any of them
        self.count_produce = False  # True if there are quotas that a Produce request counts for

    def set(self, client_quotas: ImageQuotas) -> None:
        """Replace the quotas, and keep what was measured."""
        for one in (self.produced, self.fetched, self.requests, self.mutations):
            one.set(client_quotas)
        self._update_flags()

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Apply the changed quotas of these entities."""
        changed = list(changed)
        for one in (self.produced, self.fetched, self.requests, self.mutations):
            one.follow(client_quotas, changed)
        self._update_flags()

    def _update_flags(self) -> None:
        self.count_produce = self.produced.are_set or self.requests.are_set
        self.are_set = self.count_produce or self.fetched.are_set or self.mutations.are_set

    def has_produce_quota(self, principal: str, client_id: str | None) -> bool:
        """Return True if the client has a quota that its Produce requests count for."""
        return self.produced.has(principal, client_id) or self.requests.has(principal, client_id)

    def add_exempt(self, seconds: float) -> None:
        """Count the time of a request that counts for no quota."""
        self.exempt.record(seconds * PERCENT_PER_SECOND, self._now_ms())

    def exempt_percentage(self) -> float:
        """Return the share of a thread, in percent, taken by requests that count for no quota."""
        return self.exempt.per_second(self._now_ms())


def _name_of(principal: str) -> str:
    return principal.partition(":")[2]
