"""/v1/users: list the SCRAM users, set and remove their passwords. No answer has a password."""

import asyncio
from typing import Final

from ottla.metadata_raft.acl import AclOperation
from ottla.metadata_raft.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS
from ottla.node.client import user_admin
from ottla.node.client.user_admin import ScramUser, words_of
from ottla.node.rest_api.operation_words import listed, record
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.route import (
    NAME,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)

TAG: Final = "Users"
STRONGEST: Final = "SCRAM-SHA-512"
MAX_PASSWORD_CHARS: Final = 1_024
_MECHANISM: Final = {"type": "string", "enum": list(SCRAM_MECHANISMS)}
_ITERATIONS: Final = {"type": "integer", "minimum": MIN_ITERATIONS, "maximum": MAX_ITERATIONS}
_USER: Final = record(
    {
        "name": STRING,
        "mechanisms": listed(
            record({"mechanism": STRING, "iterations": {"type": "integer"}}, title="UserMechanism")
        ),
    },
    title="User",
)
_USERS: Final = record({"users": listed(_USER)}, title="Users")
_PASSWORD: Final = record(
    {
        "password": {"type": "string", "minLength": 1, "maxLength": MAX_PASSWORD_CHARS},
        "mechanism": _MECHANISM,
        "iterations": _ITERATIONS,
    },
    title="NewPassword",
    optional=["mechanism", "iterations"],
)


async def list_users(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body={"users": [_data(one) for one in await user_admin.list_users(context.client)]})


async def get_user(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_data(await _user(context, request.path["user_name"])))


async def set_password(context: RestContext, request: RestRequest) -> Answer:
    body: Data = request.body
    mechanism = SCRAM_MECHANISMS[body.get("mechanism", STRONGEST)]
    name, iterations = request.path["user_name"], body.get("iterations", MIN_ITERATIONS)
    upsertion = await asyncio.to_thread(user_admin.upsertion, name, body["password"], mechanism, iterations)
    refused = await user_admin.alter_users(context.client, upsertions=[upsertion])
    for error in refused.values():
        raise error
    return Answer(status=204)


async def delete_user(context: RestContext, request: RestRequest) -> Answer:
    user = await _user(context, request.path["user_name"])
    wanted = request.query.get("mechanism")
    mechanisms = [one for one in user.iterations if wanted in (None, words_of(one))]
    if not mechanisms:
        raise RestError(404, 404, f"User {user.name} has no password for {wanted}.")
    for one in mechanisms:
        deletion = user_admin.deletion(user.name, one)
        for error in (await user_admin.alter_users(context.client, deletions=[deletion])).values():
            raise error
    return Answer(status=204)


async def _user(context: RestContext, name: str) -> ScramUser:
    found = await user_admin.list_users(context.client, [name])
    if not found:
        raise RestError(404, 404, f"There is no user {name[:200]}.")
    return found[0]


def _data(user: ScramUser) -> Data:
    mechanisms = [
        {"mechanism": words_of(one), "iterations": iterations} for one, iterations in user.iterations.items()
    ]
    return {"name": user.name, "mechanisms": mechanisms}


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/users",
        handler=list_users,
        operation_id="listUsers",
        summary="List the SCRAM users of the cluster.",
        tag=TAG,
        responses={200: Response(description="The users, by name.", schema=_USERS)},
    ),
    Route(
        method="GET",
        path="/v1/users/{user_name}",
        handler=get_user,
        operation_id="getUser",
        summary="A SCRAM user, and the mechanisms by which it can log in.",
        tag=TAG,
        path_parameters={"user_name": NAME},
        responses={200: Response(description="The user.", schema=_USER)},
    ),
    Route(
        method="PUT",
        path="/v1/users/{user_name}",
        handler=set_password,
        is_for_administrators=True,
        operation_id="setPassword",
        asks=AclOperation.ALTER,  # checked before the password is hashed
        summary="Set the password of a user; a user that does not exist is created.",
        description=f"For {STRONGEST} and with {MIN_ITERATIONS} iterations, unless the body says otherwise.",
        tag=TAG,
        path_parameters={"user_name": NAME},
        request_schema=_PASSWORD,
        body_is_required=True,
        responses={204: Response(description="Set.")},
    ),
    Route(
        method="DELETE",
        path="/v1/users/{user_name}",
        handler=delete_user,
        is_for_administrators=True,
        operation_id="deleteUser",
        summary="Remove the passwords of a user, or the one for a mechanism.",
        description="Without any, the user can no longer log in with SCRAM. ACLs and quotas stay.",
        tag=TAG,
        path_parameters={"user_name": NAME},
        query=(
            QueryParameter(
                name="mechanism", schema=_MECHANISM, description="Only for this mechanism; all by default."
            ),
        ),
        responses={204: Response(description="Removed.")},
    ),
)
