"""DescribeClientQuotas: the quotas of the entities that a filter matches (KIP-546)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import Steps, take_turns

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(of_cluster=AclOperation.DESCRIBE_CONFIGS),
    limits=RequestLimits(SEVERAL, {"components.entity_type": NAME, "components.match": NAME}),
    changes_nothing=True,
)

# The match types of a component: the entity with this name, the default entity, or any entity of the type.
EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2


class _Filter(NamedTuple):
    """`exact` has names by type, None for the default; of `types` every name matches."""

    exact: dict[str, str | None]
    types: set[str]
    is_strict: bool  # an entity with other parts does not match

    def matches(self, entity: QuotaEntity) -> bool:
        parts = dict(entity)
        if self.is_strict and len(parts) != len(self.exact) + len(self.types):
            return False
        return self.types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.exact.items()
        )


async def handle(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        selected = _filter_of(request.components, is_strict=request.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail, entries=None)
    quotas = services.metadata.image.client_quotas

    def steps() -> Steps[list[EntryData]]:
        entries = []
        for entity, values in quotas.items():
            if selected.matches(entity):
                entries.append(
                    EntryData(
                        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
                    )
                )
            yield
        return entries

    return DescribeClientQuotasResponse(error_message=None, entries=await take_turns(steps()))


def _filter_of(components: Sequence[ComponentData], *, is_strict: bool) -> _Filter:
    """Return the filter of a request; raise KafkaError if it is invalid."""
    selected = _Filter({}, set(), is_strict)
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in selected.exact or kind in selected.types:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (IP, USER, CLIENT_ID):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type == EXACT:
            if match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            selected.exact[kind] = match
        elif component.match_type in (DEFAULT, SPECIFIED):
            name = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
            if match is not None:
                raise _invalid(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
            if component.match_type == DEFAULT:
                selected.exact[kind] = None
            else:
                selected.types.add(kind)
        else:
            raise _invalid(f"Unknown match type {component.match_type}")
    named = selected.exact.keys() | selected.types
    if IP in named and len(named) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or"
            " clientId filter component."
        )
    return selected


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
