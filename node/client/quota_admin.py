"""Client quotas: list, set and remove them (KIP-546)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import check_right, error_of
from ottla.node.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataRequest,
    OpData,
)
from ottla.node.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

AT_ONCE: Final = 1_000  # entities per request: the controller accepts some thousands of changes at once
# The kinds of a part of a filter, as DescribeClientQuotas numbers them.
EXACT, DEFAULT, ANY = 0, 1, 2
_WORDS: Final = {USER: "user", CLIENT_ID: "client id", IP: "address"}


class QuotaFilterPart(NamedTuple):
    """A filter for entities that have a part of this type: with this name, the default one, or any."""

    entity_type: str
    match_type: int
    name: str | None = None


def sorted_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return an entity with its parts sorted by type, so that equal entities compare equal."""
    return tuple(sorted(parts, key=lambda part: part[0]))


def in_words(of: QuotaEntity) -> str:
    """Return an entity as text: `user anna, default client id`."""
    by_type = dict(of)
    kinds = [*(kind for kind in _WORDS if kind in by_type), *(kind for kind in by_type if kind not in _WORDS)]
    words = {kind: _WORDS.get(kind, kind) for kind in kinds}
    names = ((word, by_type[kind]) for kind, word in words.items())
    return ", ".join(f"default {word}" if name is None else f"{word} {name}" for word, name in names)


async def list_quotas(
    client: Client, parts: Sequence[QuotaFilterPart] = (), *, is_strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of all entities that have these parts; if strict, of those that have no others."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=one.entity_type, match_type=one.match_type, match=one.name)
            for one in parts
        ],
        strict=is_strict,
    )

    async def attempt() -> DescribeClientQuotasResponse:
        # The controller has every acknowledged change; other nodes apply it a moment later.
        connection = await client.controller()
        response = await connection.request(
            request, DescribeClientQuotasResponse, timeout_s=client.remaining_s
        )
        check_right(
            response.error_code,
            response.error_message,
            "the list of quotas",
            AclOperation.DESCRIBE_CONFIGS,
        )
        return response

    response = await client.retry(attempt)
    return {
        sorted_entity((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in response.entries or ()
    }


async def alter_quotas(
    client: Client,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    only_check: bool = False,
) -> dict[QuotaEntity, KafkaError]:
    """Set quotas, or remove those whose value is None; return the rejected entities with their errors.

    The changes of an entity are made all or none.
    """
    refused: dict[QuotaEntity, KafkaError] = {}
    wanted = [(sorted_entity(one), values) for one, values in changes.items()]
    for begin in range(0, len(wanted), AT_ONCE):
        refused |= await _alter(client, wanted[begin : begin + AT_ONCE], only_check)
    return refused


async def _alter(
    client: Client, changes: Sequence[tuple[QuotaEntity, Mapping[str, float | None]]], only_check: bool
) -> dict[QuotaEntity, KafkaError]:
    request = AlterClientQuotasRequest(
        entries=[
            EntryDataRequest(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in of],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for of, values in changes
        ],
        validate_only=only_check,
    )

    async def attempt() -> AlterClientQuotasResponse:
        connection = await client.controller()
        response = await connection.request(request, AlterClientQuotasResponse, timeout_s=client.remaining_s)
        for one in response.entries:
            if one.error_code == ErrorCode.NOT_CONTROLLER:
                check_right(one.error_code, one.error_message, "the quotas", AclOperation.ALTER_CONFIGS)
        return response

    response = await client.retry(attempt)
    refused: dict[QuotaEntity, KafkaError] = {}
    for one in response.entries:
        of = sorted_entity((part.entity_type, part.entity_name) for part in one.entity)
        subject = f"the quotas of {in_words(of)}"
        error = error_of(one.error_code, one.error_message, subject, AclOperation.ALTER_CONFIGS)
        if error is not None:
            refused[of] = error
    return refused
