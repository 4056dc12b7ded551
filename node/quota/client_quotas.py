"""Measures what clients send and receive against the byte quotas of the cluster.

Where there are none `are_set` is false, and that is all that a request asks for.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.metadata_raft.image import QuotaEntity
from ottla.node.quota.quota_buckets import QuotaBuckets
from ottla.node.quota.quota_entities import QuotaEntities, Sharers
from ottla.node.quota.rate import Rate, Windows

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"


class ByteQuotas:
    """The quotas of one key, and the rates of those who have one."""

    def __init__(self, key: str, windows: Windows, now_ms: Callable[[], int]) -> None:
        self._key = key
        self._now_ms = now_ms
        self._entities = QuotaEntities({}, key)
        self._rates: QuotaBuckets[Sharers, Rate] = QuotaBuckets(lambda: Rate(windows))
        self.are_set = False

    def set(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Have these quotas count from now on; what was measured stays."""
        self._entities = QuotaEntities(client_quotas, self._key)
        self.are_set = bool(self._entities)

    def has(self, principal: str, client_id: str | None) -> bool:
        """Return whether there is a quota for a client; `principal` is "TYPE:NAME"."""
        return self._entities.of_client(_name_of(principal), client_id) is not None

    def record(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Count bytes of a client; return how long (ms) it has to wait, 0 if it is within its quota."""
        quota = self._entities.of_client(_name_of(principal), client_id)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rates.of(quota.sharers, now_ms)
        rate.record(float(size_bytes), now_ms)
        return rate.throttle_ms(quota.limit, now_ms)


def _name_of(principal: str) -> str:
    return principal.partition(":")[2]
