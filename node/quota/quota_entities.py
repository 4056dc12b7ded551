"""Finds the quota of a client, and the clients that share it.

The most specific quota counts, as in Apache Kafka: first quotas of the user by name, then of the default
user, then of client ids alone; within each, a client id before the default one. Unlike in Kafka, the default
also applies to clients without a client id.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.metadata_raft.image import CLIENT_ID, IP, USER, QuotaEntity


class QuotaSharers(NamedTuple):
    """The clients that share a quota: those of one user, with one client id, or both; None stands for any."""

    user: str | None
    client_id: str | None


class ClientQuota(NamedTuple):
    """A quota, and the clients that share it."""

    limit: float
    sharers: QuotaSharers


class _Level(NamedTuple):
    """A form of a quota's entity: user and client id are each named (True), the default (False) or absent."""

    is_user_named: bool | None
    is_client_named: bool | None

    def entity(self, user: str, client_id: str) -> QuotaEntity:
        found: list[tuple[str, str | None]] = []
        if self.is_client_named is not None:
            found.append((CLIENT_ID, client_id if self.is_client_named else None))
        if self.is_user_named is not None:
            found.append((USER, user if self.is_user_named else None))
        return tuple(found)


# By precedence.
_LEVELS: Final = (
    _Level(True, True),
    _Level(True, False),
    _Level(True, None),
    _Level(False, True),
    _Level(False, False),
    _Level(False, None),
    _Level(None, True),
    _Level(None, False),
)


class QuotaEntities:
    """The quotas of one key, such as `producer_byte_rate`, from the metadata image."""

    def __init__(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        self._key = key
        self._limits: dict[QuotaEntity, float] = {}
        self._counts: Counter[_Level] = Counter()  # of entities
        self._levels: tuple[_Level, ...] = ()
        self.follow(client_quotas, client_quotas)

    def follow(
        self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]], changed: Iterable[QuotaEntity]
    ) -> None:
        """Apply the changed quotas of these entities; the others, maybe 100,000, are left alone."""
        for entity in changed:
            limit = client_quotas.get(entity, {}).get(self._key)
            parts = tuple(sorted(map(_normalized, entity), key=_kind_of))
            level = _level_of(entity)
            if self._limits.pop(parts, None) is not None:
                self._counts[level] -= 1
            if limit is not None:
                self._limits[parts] = limit
                self._counts[level] += 1
        self._levels = tuple(level for level in _LEVELS if self._counts[level])

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of_client(self, user: str, client_id: str | None) -> ClientQuota | None:
        """Return the quota for clients of a user (a principal's name without its type), or None."""
        for level in self._levels:
            limit = self._limits.get(level.entity(user, client_id or ""))
            if limit is not None:
                return ClientQuota(
                    limit,
                    QuotaSharers(
                        None if level.is_user_named is None else user,
                        None if level.is_client_named is None else client_id or "",
                    ),
                )
        return None

    def of_address(self, address: str) -> float | None:
        """Return the quota for connections from an address as a socket returns it, or None."""
        address, _, _ = address.partition("%")  # Quotas of addresses name no interface.
        limit = self._limits.get(((IP, address),))
        return self._limits.get(((IP, None),)) if limit is None else limit


def _normalized(part: tuple[str, str | None]) -> tuple[str, str | None]:
    """Return a part of an entity; an address is written as sockets return it."""
    kind, name = part
    if kind != IP or name is None:
        return part
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return part  # not an address; another version may have accepted it
    return kind, str(getattr(address, "ipv4_mapped", None) or address)


def _kind_of(part: tuple[str, str | None]) -> str:
    return part[0]


def _level_of(entity: QuotaEntity) -> _Level:
    parts = {kind: name is not None for kind, name in entity}
    return _Level(parts.get(USER), parts.get(CLIENT_ID))
