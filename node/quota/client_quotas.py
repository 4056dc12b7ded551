"""Measures what clients ask of a node against the quotas of the cluster.

Where there are none `are_set` is false, and that is all that a request asks for.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.metadata_raft.commands import MutationPayer
from ottla.metadata_raft.image import QuotaEntity
from ottla.metadata_raft.mutation_charge import FREE, Taken
from ottla.node.quota.quota_buckets import QuotaBuckets
from ottla.node.quota.quota_entities import ClientQuota, QuotaEntities, Sharers
from ottla.node.quota.rate import MAX_THROTTLE_MS, Rate, Windows, most_in_windows
from ottla.node.quota.throttle_times import ThrottleTimes
from ottla.node.quota.token_bucket import TokenBucket

ImageQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

PERCENT_PER_SECOND: Final = 100.0  # a second of each second is one thread in full
_RATE_WINDOWS: Final = Windows(2, 30_000)  # of what is only shown


class QuotaReading(NamedTuple):
    """The measurements of those who share a quota."""

    user: str
    client_id: str
    value: float  # a rate, or how many tokens there are
    mutation_rate: float  # of controller mutations alone
    throttle_ms: float  # the average of late


class _Measured:
    __slots__ = ("rate", "throttled")

    def __init__(self, windows: Windows) -> None:
        self.rate = Rate(windows)
        self.throttled = ThrottleTimes()


class RateQuotas:
    """The quotas of one key, and the rates of those who have one."""

    def __init__(
        self,
        key: str,
        windows: Windows,
        now_ms: Callable[[], int],
        *,
        most_throttle_ms: int = MAX_THROTTLE_MS,
    ) -> None:
        self._key = key
        self._windows = windows
        self._now_ms = now_ms
        self._most_throttle_ms = most_throttle_ms
        self._entities = QuotaEntities({}, key)
        self._measured: QuotaBuckets[Sharers, _Measured] = QuotaBuckets(lambda: _Measured(windows))
        self.are_set = False

    def set(self, client_quotas: ImageQuotas) -> None:
        """Have these quotas count from now on; what was measured stays."""
        self._entities = QuotaEntities({}, self._key)
        self.follow(client_quotas, client_quotas)

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Take over what became of the quotas of entities that were changed."""
        self._entities.follow(client_quotas, changed)
        self.are_set = bool(self._entities)

    def has(self, principal: str, client_id: str | None) -> bool:
        """Return whether there is a quota for a client; `principal` is "TYPE:NAME"."""
        return self._of(principal, client_id) is not None

    def record(self, principal: str, client_id: str | None, value: float) -> int:
        """Count a value of a client; return how long (ms) it has to wait, 0 if it is within its quota."""
        quota = self._of(principal, client_id)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        rate = self._measured.of(quota.sharers, now_ms).rate
        rate.record(float(value), now_ms)
        return rate.throttle_ms(quota.limit, now_ms, most_ms=self._most_throttle_ms)

    def add(self, principal: str, client_id: str | None, value: float) -> None:
        """Count a value of a client that nobody waits for; a negative one takes back what was counted."""
        quota = self._of(principal, client_id)
        if quota is not None:
            now_ms = self._now_ms()
            self._measured.of(quota.sharers, now_ms).rate.record(float(value), now_ms)

    def throttled(self, principal: str, client_id: str | None, throttle_ms: int) -> None:
        """Note that a client was told to wait, for the metrics."""
        quota = self._of(principal, client_id)
        if quota is not None:
            now_ms = self._now_ms()
            self._measured.of(quota.sharers, now_ms).throttled.record(throttle_ms, now_ms)

    def most_at_once(self, principal: str, client_id: str | None) -> int | None:
        """Return the largest value that is not throttled for certain; None without a quota."""
        quota = self._of(principal, client_id)
        return None if quota is None else int(min(most_in_windows(quota.limit, self._windows), 2**63))

    def readings(self, most: int) -> list[QuotaReading]:
        """Return what is measured now, of those who were seen last."""
        now_ms = self._now_ms()
        return [
            QuotaReading(
                sharers.user or "",
                sharers.client_id or "",
                one.rate.per_second(now_ms),
                0.0,
                one.throttled.average_ms(now_ms),
            )
            for sharers, one in self._measured.latest(most, now_ms)
            if self._entities.of_client(sharers.user or "", sharers.client_id) is not None
        ]

    def _of(self, principal: str, client_id: str | None) -> ClientQuota | None:
        return self._entities.of_client(_name_of(principal), client_id)


class _Mutated:
    __slots__ = ("rate", "throttled", "tokens")

    def __init__(self, windows: Windows) -> None:
        self.tokens = TokenBucket(windows)
        self.rate = Rate(_RATE_WINDOWS)
        self.throttled = ThrottleTimes()


class MutationQuotas:
    """The quotas of changes to the cluster, and the tokens of those who have one."""

    def __init__(self, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entities = QuotaEntities({}, CONTROLLER_MUTATION_RATE)
        self._mutated: QuotaBuckets[Sharers, _Mutated] = QuotaBuckets(lambda: _Mutated(windows))
        self.are_set = False

    def set(self, client_quotas: ImageQuotas) -> None:
        """Have these quotas count from now on; tokens stay."""
        self._entities = QuotaEntities({}, CONTROLLER_MUTATION_RATE)
        self.follow(client_quotas, client_quotas)

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Take over what became of the quotas of entities that were changed."""
        self._entities.follow(client_quotas, changed)
        self.are_set = bool(self._entities)

    def has(self, principal: str, client_id: str | None) -> bool:
        """Return whether there is a quota for a client; `principal` is "TYPE:NAME"."""
        return self._of(principal, client_id) is not None

    def take(self, payer: MutationPayer, mutations: int) -> Taken:
        """Take a token for each mutation. Strictly, none are taken while the quota is exhausted; else they
        are taken at any rate, and the client has to wait afterwards.
        """
        quota = self._of(payer.principal, payer.client_id)
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

    def readings(self, most: int) -> list[QuotaReading]:
        """Return what is measured now, of those who were seen last."""
        now_ms = self._now_ms()
        found = []
        for sharers, one in self._mutated.latest(most, now_ms):
            quota = self._entities.of_client(sharers.user or "", sharers.client_id)
            if quota is not None:
                tokens, mutations = one.tokens.tokens(quota.limit, now_ms), one.rate.per_second(now_ms)
                user, client_id = sharers.user or "", sharers.client_id or ""
                throttle_ms = one.throttled.average_ms(now_ms)
                found.append(QuotaReading(user, client_id, tokens, mutations, throttle_ms))
        return found

    def _of(self, principal: str, client_id: str | None) -> ClientQuota | None:
        return self._entities.of_client(_name_of(principal), client_id)


class ClientQuotas:
    """All quotas of clients on one node."""

    def __init__(self, windows: Windows, controller_windows: Windows, now_ms: Callable[[], int]) -> None:
        self.produced = RateQuotas(PRODUCER_BYTE_RATE, windows, now_ms)
        self.fetched = RateQuotas(CONSUMER_BYTE_RATE, windows, now_ms)
        self.requests = RateQuotas(REQUEST_PERCENTAGE, windows, now_ms, most_throttle_ms=windows.window_ms)
        self.mutations = MutationQuotas(controller_windows, now_ms)
        self.exempt = Rate(_RATE_WINDOWS)  # the time of requests that no quota counts, in percent
        self._now_ms = now_ms
        self.are_set = False  # any of them
        self.count_produce = False  # those that a Produce request counts for

    def set(self, client_quotas: ImageQuotas) -> None:
        """Have these quotas count from now on; what was measured stays."""
        for one in (self.produced, self.fetched, self.requests, self.mutations):
            one.set(client_quotas)
        self._look()

    def follow(self, client_quotas: ImageQuotas, changed: Iterable[QuotaEntity]) -> None:
        """Take over what became of the quotas of entities that were changed."""
        changed = list(changed)
        for one in (self.produced, self.fetched, self.requests, self.mutations):
            one.follow(client_quotas, changed)
        self._look()

    def _look(self) -> None:
        self.count_produce = self.produced.are_set or self.requests.are_set
        self.are_set = self.count_produce or self.fetched.are_set or self.mutations.are_set

    def has_of_produce(self, principal: str, client_id: str | None) -> bool:
        """Return whether a client has a quota that its Produce requests count for."""
        return self.produced.has(principal, client_id) or self.requests.has(principal, client_id)

    def add_exempt(self, seconds: float) -> None:
        """Count the time of a request that no quota counts."""
        self.exempt.record(seconds * PERCENT_PER_SECOND, self._now_ms())

    def exempt_percentage(self) -> float:
        """Return how much of a thread requests take that no quota counts."""
        return self.exempt.per_second(self._now_ms())


def _name_of(principal: str) -> str:
    return principal.partition(":")[2]
