"""Access control entries (ACLs) in Confluent's v3: search and delete by filters, and create.

As with Confluent's REST proxy, the words of a filter are accepted in any case, and without an authorizer the
error has its text.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import urlencode

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    MAX_HOST_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PRINCIPAL_CHARACTERS,
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    word,
)
from ottla.node.client import acl_admin
from ottla.node.rest_api.resource import Data, collection, collection_schema, resource_schema, url
from ottla.node.rest_api.rest_error import KAFKA_BAD_REQUEST, RestError, bad_request, not_found
from ottla.node.rest_api.route import (
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "ACL (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/acls"
MAX_BATCH: Final = 1_000
_WORDS: Final[Mapping[str, type[IntEnum]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": AclOperation,
    "permission": AclPermissionType,
}
_LENGTHS: Final = {
    "resource_name": MAX_NAME_CHARACTERS,
    "principal": MAX_PRINCIPAL_CHARACTERS,
    "host": MAX_HOST_CHARACTERS,
}
_FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)
_FILTER: Final = tuple(
    QueryParameter(name=name, schema=STRING, description=f"The {name.replace('_', ' ')} of ACLs.")
    for name in _FIELDS
)
_GIVEN: Final = {
    "title": "CreateAclRequestData",
    "type": "object",
    "properties": {
        name: {"type": "string", "enum": [one.name for one in _WORDS[name]]}
        if name in _WORDS
        else {"type": "string", "minLength": 1, "maxLength": _LENGTHS[name]}
        for name in _FIELDS
    },
    "required": list(_FIELDS),
}
_GIVEN_BATCH: Final = {
    "title": "CreateAclBatchRequestData",
    "type": "object",
    "properties": {"data": {"type": "array", "items": _GIVEN, "minItems": 1, "maxItems": MAX_BATCH}},
    "required": ["data"],
}
_ACL: Final = resource_schema("AclData", "KafkaAcl", {"cluster_id": STRING, **dict.fromkeys(_FIELDS, STRING)})
_ACLS: Final = collection_schema("AclDataList", "KafkaAclList", _ACL)
_DELETED: Final = {
    "title": "DeleteAclsResponse",
    "type": "object",
    "properties": {"data": {"type": "array", "items": _ACL}},
    "required": ["data"],
}
_CREATED: Final = Response(description="The ACL was created, or existed already.")


async def search_acls(context: RestContext, request: RestRequest) -> Answer:
    given = _given(request)
    try:
        found = await acl_admin.list_acls(context.client, _filter(given))
    except KafkaError as error:
        raise _rest_error(error) from None
    link = _link(context, request, given)
    return Answer(body=collection("KafkaAclList", link, [_data(context, request, one) for one in found]))


async def delete_acls(context: RestContext, request: RestRequest) -> Answer:
    try:
        [deleted] = await acl_admin.delete_acls(context.client, [_filter(_given(request))])
    except KafkaError as error:
        raise _rest_error(error) from None
    if deleted.error is not None:
        raise _rest_error(deleted.error)
    return Answer(body={"data": [_data(context, request, one) for one in deleted.entries]})


async def create_acl(context: RestContext, request: RestRequest) -> Answer:
    body: Mapping[str, str] = request.body
    entry = _entry(body)
    await _create(context, [entry])
    return Answer(status=201, headers={"Location": _link(context, request, _fields(entry))})


async def create_acls(context: RestContext, request: RestRequest) -> Answer:
    body: Data = request.body
    await _create(context, [_entry(one) for one in body["data"]])
    return Answer(status=201)


async def _create(context: RestContext, entries: list[AccessControlEntry]) -> None:
    try:
        refused = await acl_admin.create_acls(context.client, entries)
    except KafkaError as error:
        raise _rest_error(error) from None
    for reason in refused.values():
        raise _rest_error(reason)


def _rest_error(error: KafkaError) -> KafkaError | RestError:
    if error.code is ErrorCode.SECURITY_DISABLED:
        return RestError(400, KAFKA_BAD_REQUEST, "No Authorizer is configured.")
    return error


def _given(request: RestRequest) -> dict[str, str]:
    """Return all fields of a filter, with defaults for those not given; RestError if a word is unknown."""
    given = {name: request.query.get(name, "ANY" if name in _WORDS else "") for name in _FIELDS}
    for name, kind in _WORDS.items():
        given[name] = given[name].upper()
        if given[name] not in kind.__members__:
            raise not_found(f"{name} must be one of {', '.join(kind.__members__)}.")
        if given[name] == "UNKNOWN":
            raise bad_request(f"{name} cannot be UNKNOWN")
    return given


def _filter(given: Mapping[str, str]) -> AclFilter:
    return AclFilter(
        ResourceType[given["resource_type"]],
        given["resource_name"] or None,
        PatternType[given["pattern_type"]],
        given["principal"] or None,
        given["host"] or None,
        AclOperation[given["operation"]],
        AclPermissionType[given["permission"]],
    )


def _entry(body: Mapping[str, str]) -> AccessControlEntry:
    """Return the entry of a body; RestError if a word stands for several values or for none."""
    for name in _WORDS:
        if body[name] in ("ANY", "UNKNOWN", "MATCH"):
            raise bad_request(f"{name} cannot be {body[name]}")
    return AccessControlEntry(
        ResourceType[body["resource_type"]],
        body["resource_name"],
        PatternType[body["pattern_type"]],
        body["principal"],
        body["host"],
        AclOperation[body["operation"]],
        AclPermissionType[body["permission"]],
    )


def _fields(entry: AccessControlEntry) -> dict[str, str]:
    return {
        "resource_type": word(ResourceType, entry.resource_type),
        "resource_name": entry.resource_name,
        "pattern_type": word(PatternType, entry.pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": word(AclOperation, entry.operation),
        "permission": word(AclPermissionType, entry.permission_type),
    }


def _link(context: RestContext, request: RestRequest, fields: Mapping[str, str]) -> str:
    return f"{url(request.base_url, 'clusters', context.cluster_id, 'acls')}?{urlencode(fields)}"


def _data(context: RestContext, request: RestRequest, entry: AccessControlEntry) -> Data:
    """Return an entry in Confluent's format: without a resource name in its metadata, and with a link to the
    search that finds it.
    """
    fields = _fields(entry)
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": _link(context, request, fields)},
        "cluster_id": context.cluster_id,
        **fields,
    }


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=search_acls,
        operation_id="getKafkaAcls",
        summary="List the ACLs that match a filter.",
        description="Without an authorizer (authorizer.class.name), the answer is 400.",
        tag=TAG,
        query=_FILTER,
        responses={200: Response(description="The ACLs.", schema=_ACLS)},
    ),
    Route(
        method="POST",
        path=PATH,
        handler=create_acl,
        is_for_administrators=True,
        operation_id="createKafkaAcls",
        summary="Create an ACL.",
        tag=TAG,
        request_schema=_GIVEN,
        body_is_required=True,
        responses={201: _CREATED},
    ),
    Route(
        method="POST",
        path=PATH + ":batch",
        handler=create_acls,
        is_for_administrators=True,
        operation_id="batchCreateKafkaAcls",
        summary="Create ACLs.",
        description="If some are refused, the error is that of the first; others may have been created.",
        tag=TAG,
        request_schema=_GIVEN_BATCH,
        body_is_required=True,
        responses={201: _CREATED},
    ),
    Route(
        method="DELETE",
        path=PATH,
        handler=delete_acls,
        is_for_administrators=True,
        operation_id="deleteKafkaAcls",
        summary="Delete the ACLs that match a filter; without one, all.",
        tag=TAG,
        query=_FILTER,
        responses={200: Response(description="The ACLs that were deleted.", schema=_DELETED)},
    ),
)
