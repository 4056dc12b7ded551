"""Decides changes of client quotas: which entities may have which quotas, and their records (KIP-546)."""

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    QuotaChange,
    QuotaChanges,
    ResourceResult,
)
from ottla.metadata_raft.controller_config import MAX_QUOTA_ENTITIES
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.feature_control import check_security_version
from ottla.metadata_raft.image import CLIENT_ID, IP, USER, MetadataImage, QuotaEntity
from ottla.metadata_raft.records import ClientQuotaRecord, MetadataRecord, QuotaEntityPart

# The largest value of each quota that must be an integer; None if it may be a fraction.
_OF_USERS_AND_CLIENTS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Final[Mapping[str, int | None]] = {"connection_creation_rate": 2**31 - 1}
_KAFKAS_TYPES: Final = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}
_LARGEST_FRACTION: Final = 1e-6  # of a value that counts as an integer, since requests have floats


def alter_client_quotas(image: MetadataImage, command: AlterClientQuotas) -> Decision:
    """Decide changes of quotas, each entity by itself; an entity that is named twice fails both times."""
    check_security_version(image, "client quotas")
    entities = [entity_of(one.entity) for one in command.entries]
    seen: set[QuotaEntity] = set()
    twice = {one for one in entities if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
    known = len(image.client_quotas)
    records: list[MetadataRecord] = []
    results = []
    for wanted, entity in zip(command.entries, entities, strict=True):
        try:
            if entity in twice:
                raise _invalid(f"Ignoring duplicate entity {in_words(entity)}")
            made = _records(image, wanted, entity)
            if any(not one.remove for one in made) and entity not in image.client_quotas:
                known += 1
                if known > MAX_QUOTA_ENTITIES:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"At most {MAX_QUOTA_ENTITIES} entities may have quotas: remove some first.",
                    )
            records.extend(made)
            results.append(ResourceResult())
        except KafkaError as error:
            results.append(ResourceResult(error_code=error.code, error_message=error.detail))
    return Decision(
        records=[] if command.validate_only else records, reply=AlterClientQuotasReply(results=results)
    )


def entity_of(parts: Sequence[QuotaEntityPart]) -> QuotaEntity:
    """Return the entity of a request, with its parts sorted by type."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in parts), key=lambda part: part[0]))


def in_words(entity: QuotaEntity) -> str:
    """Return an entity in the notation of Kafka's messages."""
    return f"ClientQuotaEntity(entries={{{', '.join(f'{kind}={name}' for kind, name in entity)}}})"


def _records(image: MetadataImage, wanted: QuotaChanges, entity: QuotaEntity) -> list[ClientQuotaRecord]:
    seen: set[str] = set()
    for change in wanted.changes:
        if change.key in seen:
            raise _invalid(
                f"Duplicate quota key {change.key} not updating quota for this entity {in_words(entity)}"
            )
        seen.add(change.key)
    largest = _quotas_of(entity)
    current = image.client_quotas.get(entity, {})
    parts = [QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity]
    records = []
    for change in wanted.changes:
        if change.remove:
            if change.key in current:
                records.append(ClientQuotaRecord(entity=parts, key=change.key, remove=True))
            continue
        _check_value(largest, change)
        if current.get(change.key) != change.value:
            records.append(ClientQuotaRecord(entity=parts, key=change.key, value=change.value))
    return records


def _quotas_of(entity: QuotaEntity) -> Mapping[str, int | None]:
    """Return the quotas of an entity, with their largest values; INVALID_REQUEST if it is not valid."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    named: dict[str, str | None] = {}
    for kind, name in entity:
        if kind in named:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind[:100]}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        named[kind] = name
    if IP not in named:
        return _OF_USERS_AND_CLIENTS
    if len(named) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        )
    address = named[IP]
    if address is not None and not _is_address(address):
        # Kafka resolves a host name once, and limits the address that it had then.
        raise _invalid(f"{address[:100]} is not a valid IP address. Host names are not resolved.")
    return _OF_ADDRESSES


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(largest: Mapping[str, int | None], change: QuotaChange) -> None:
    key, value = change.key, change.value
    if key not in largest:
        raise _invalid(f"Invalid configuration key {key[:100]}")
    if not value > 0.0:
        raise _invalid(f"Quota {key} must be greater than 0")
    most = largest[key]
    if most is not None:
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {_KAFKAS_TYPES[most]}.")
        if value % 1.0 > _LARGEST_FRACTION:
            raise _invalid(f"{key} cannot be a fractional value.")
    elif math.isinf(value):
        raise _invalid(f"Quota {key} must be a finite number")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
