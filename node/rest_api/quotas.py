"""/v1/quotas: list, set and remove the quotas of users, client ids and addresses.

An entity is given by its parts: `{"user": "ann", "client_id": null}` is the user ann with any client id that
has no quota of its own. Null is the default entity; in a query, an empty value stands for null.
"""

from collections.abc import Mapping
from typing import Final

from ottla.metadata_raft.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.node.client import quota_admin
from ottla.node.client.quota_admin import DEFAULT, EXACT, QuotaFilterPart, in_words, sorted_entity
from ottla.node.rest_api.operation_words import NULL_NUMBER, NULL_STRING, listed, record
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import RestError, bad_request
from ottla.node.rest_api.route import (
    BOOLEAN,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Quotas"
MAX_QUOTAS: Final = 20  # of one entity; Kafka knows five
_TYPES: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}
_ENTITY: Final = record(
    {name: {**NULL_STRING, "maxLength": 1_000} for name in _TYPES}, title="QuotaEntity", optional=_TYPES
)
_VALUES: Final = {"type": "object", "additionalProperties": {"type": "number"}}
_QUOTA: Final = record({"entity": _ENTITY, "quotas": _VALUES}, title="Quota")
_QUOTAS: Final = record({"quotas": listed(_QUOTA)}, title="Quotas")
_CHANGE: Final = record(
    {
        "entity": _ENTITY,
        "quotas": {"type": "object", "additionalProperties": NULL_NUMBER},
        "dry_run": BOOLEAN,
    },
    title="QuotaChange",
    optional=["dry_run"],
)
_PARTS: Final = tuple(
    QueryParameter(name=name, description=f"The {name.replace('_', ' ')}; empty: the default one.")
    for name in _TYPES
)


async def list_quotas(context: RestContext, request: RestRequest) -> Answer:
    parts = [
        QuotaFilterPart(kind, EXACT if request.query[name] else DEFAULT, request.query[name] or None)
        for name, kind in _TYPES.items()
        if name in request.query
    ]
    found = await quota_admin.list_quotas(context.client, parts)
    shown = [
        {"entity": {_NAMES.get(kind, kind): name for kind, name in entity}, "quotas": values}
        for entity, values in sorted(found.items(), key=lambda item: in_words(item[0]))
    ]
    return Answer(body={"quotas": shown})


async def alter_quotas(context: RestContext, request: RestRequest) -> Answer:
    body: Data = request.body
    entity = sorted_entity((_TYPES[name], value) for name, value in body["entity"].items())
    if not entity:
        raise bad_request("entity must name a user, a client_id or an ip")
    if not 0 < len(body["quotas"]) <= MAX_QUOTAS:
        raise bad_request(f"quotas must have 1 to {MAX_QUOTAS} values")
    if any(name == "" for _, name in entity):
        raise bad_request("a name in entity cannot be empty; null stands for the default")
    await _alter(context, entity, body["quotas"], only_check=bool(body.get("dry_run")))
    return Answer(status=204)


async def delete_quotas(context: RestContext, request: RestRequest) -> Answer:
    entity = sorted_entity(
        (kind, request.query[name] or None) for name, kind in _TYPES.items() if name in request.query
    )
    if not entity:
        raise bad_request("The query must name a user, a client_id or an ip.")
    parts = [QuotaFilterPart(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]
    found = await quota_admin.list_quotas(context.client, parts, is_strict=True)
    if entity not in found:
        raise RestError(404, 404, f"There are no quotas of {in_words(entity)[:300]}.")
    await _alter(context, entity, dict.fromkeys(found[entity]))
    return Answer(status=204)


async def _alter(
    context: RestContext, entity: QuotaEntity, values: Mapping[str, float | None], *, only_check: bool = False
) -> None:
    refused = await quota_admin.alter_quotas(context.client, {entity: values}, only_check=only_check)
    for error in refused.values():
        raise error


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/quotas",
        handler=list_quotas,
        operation_id="listQuotas",
        summary="List the quotas of users, client ids and addresses.",
        description="With a user, client_id or ip, only those of entities that name it.",
        tag=TAG,
        query=_PARTS,
        responses={200: Response(description="The quotas by entity.", schema=_QUOTAS)},
    ),
    Route(
        method="PUT",
        path="/v1/quotas",
        handler=alter_quotas,
        is_for_administrators=True,
        operation_id="alterQuotas",
        summary="Set quotas of an entity; null removes one, and others stay.",
        tag=TAG,
        request_schema=_CHANGE,
        body_is_required=True,
        responses={204: Response(description="Set, or with dry_run: they could be set.")},
    ),
    Route(
        method="DELETE",
        path="/v1/quotas",
        handler=delete_quotas,
        is_for_administrators=True,
        operation_id="deleteQuotas",
        summary="Remove all quotas of one entity.",
        tag=TAG,
        query=_PARTS,
        responses={204: Response(description="Removed.")},
    ),
)
