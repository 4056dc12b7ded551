"""ACLs: there is no authorizer, and the API says so in the words of Confluent's for a cluster without one."""

from typing import Final

from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.node.rest_api.rest_error import KAFKA_BAD_REQUEST, RestError, bad_request
from ottla.node.rest_api.route import NAME, STRING, Answer, QueryParameter, RestContext, RestRequest, Route

TAG: Final = "ACL (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/acls"
_ENUMS: Final = {
    "resource_type": tuple(one.name for one in ResourceType),
    "pattern_type": tuple(one.name for one in PatternType),
    "operation": tuple(one.name for one in AclOperation),
    "permission": tuple(one.name for one in AclPermissionType),
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
_ACL: Final = {
    "title": "CreateAclRequestData",
    "type": "object",
    "properties": {
        name: {"type": "string", "enum": list(_ENUMS[name])} if name in _ENUMS else NAME for name in _FIELDS
    },
    "required": list(_FIELDS),
}
_ACLS: Final = {
    "title": "CreateAclBatchRequestData",
    "type": "object",
    "properties": {"data": {"type": "array", "items": _ACL}},
    "required": ["data"],
}


async def refuse(context: RestContext, request: RestRequest) -> Answer:
    for name, allowed in _ENUMS.items():
        given = request.query.get(name)
        if given is not None and given.upper() not in allowed:
            raise RestError(404, 404, "HTTP 404 Not Found")
        if given is not None and given.upper() == "UNKNOWN":
            raise bad_request(f"{name} cannot be UNKNOWN")
    raise RestError(400, KAFKA_BAD_REQUEST, "No Authorizer is configured.")


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=refuse,
        operation_id="getKafkaAcls",
        summary="List ACLs; always empty, because the cluster has no authorizer.",
        tag=TAG,
        query=_FILTER,
        responses={},
    ),
    Route(
        method="POST",
        path=PATH,
        handler=refuse,
        operation_id="createKafkaAcls",
        summary="Create an ACL; rejected, because the cluster has no authorizer.",
        tag=TAG,
        request_schema=_ACL,
        body_is_required=True,
        responses={},
    ),
    Route(
        method="POST",
        path=PATH + ":batch",
        handler=refuse,
        operation_id="batchCreateKafkaAcls",
        summary="Create ACLs; rejected, because the cluster has no authorizer.",
        tag=TAG,
        request_schema=_ACLS,
        body_is_required=True,
        responses={},
    ),
    Route(
        method="DELETE",
        path=PATH,
        handler=refuse,
        operation_id="deleteKafkaAcls",
        summary="Delete ACLs; rejected, because the cluster has no authorizer.",
        tag=TAG,
        query=_FILTER,
        responses={},
    ),
)
