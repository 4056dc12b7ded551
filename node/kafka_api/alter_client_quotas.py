"""AlterClientQuotas: sets and removes quotas of users, client ids and addresses (KIP-546)."""

from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.client_quota_control import entity_of
from ottla.metadata_raft.commands import AlterClientQuotas, QuotaChange, QuotaChanges, ResourceResult
from ottla.metadata_raft.image import QuotaEntity
from ottla.metadata_raft.records import QuotaEntityPart
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.metadata.command_parts import submit_in_parts
from ottla.node.metadata.metadata_runtime import DEFAULT_TIMEOUT_MS
from ottla.node.services import Services
from ottla.node.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataRequest,
    EntryDataResponse,
)
from ottla.node.wire.request_limits import MANY_CHANGED, NAME, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.ALTER_CONFIGS),
    limits=RequestLimits(
        MANY_CHANGED,
        {
            "entries.entity.entity_type": NAME,
            "entries.entity.entity_name": NAME,
            "entries.ops.key": NAME,
        },
        ErrorCode.POLICY_VIOLATION,
    ),
    echoes=(Echo("entries", "entries", inner=Echo("entity", "entity", ("entity_type", "entity_name"))),),
)


async def handle(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    results: dict[QuotaEntity, tuple[QuotaChanges, ResourceResult]] = {}  # each entity is answered once

    def note(part: Sequence[QuotaChanges], found: Sequence[ResourceResult]) -> list[ResourceResult]:
        for one, result in zip(part, found, strict=True):
            results[entity_of(one.entity)] = one, result
        return []

    def refused(part: Sequence[QuotaChanges], error: KafkaError) -> list[ResourceResult]:
        result = ResourceResult(error_code=error.code, error_message=error.detail)
        return note(part, [result] * len(part))

    async def submit(part: list[QuotaChanges], timeout_ms: int) -> list[ResourceResult]:
        command = AlterClientQuotas(entries=part, validate_only=request.validate_only)
        return note(part, (await services.metadata.submit(command, timeout_ms, context.client)).results)

    wanted = await listed(map(_changes, request.entries), is_large=context.is_large)
    await submit_in_parts(
        wanted,
        records_of=lambda entry: len(entry.changes),
        key_of=lambda entry: entity_of(entry.entity),
        submit=submit,
        refused=refused,
        timeout_ms=DEFAULT_TIMEOUT_MS,  # the request has no timeout
    )
    answered = (_answer(entry, result) for entry, result in results.values())
    return AlterClientQuotasResponse(entries=await listed(answered, is_large=context.is_large))


def _changes(entry: EntryDataRequest) -> QuotaChanges:
    return QuotaChanges(
        entity=[
            QuotaEntityPart(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ],
        changes=[QuotaChange(key=op.key, value=op.value, remove=op.remove) for op in entry.ops],
    )


def _answer(entry: QuotaChanges, result: ResourceResult) -> EntryDataResponse:
    return EntryDataResponse(
        error_code=result.error_code,
        error_message=result.error_message,
        entity=[
            EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
        ],
    )
