"""Logins to the console: a session for a password or a token, in a cookie that scripts cannot read.

The browser gets the id of a session in that cookie alone. A change also needs the session's token, which only
a page of this node can read. A new login ends the session that the browser had before.
"""

from typing import Final

from ottla.node.authorization.access import ANONYMOUS
from ottla.node.rest_api.authentication import SESSION_CHALLENGE, WrongLogin
from ottla.node.rest_api.operation_words import NULL_STRING, listed, record
from ottla.node.rest_api.resource import Data
from ottla.node.rest_api.rest_error import AUTHENTICATION_FAILED, RestError, bad_request
from ottla.node.rest_api.route import STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.rest_api.sessions import Session
from ottla.node.settings.rest_security_settings import BASIC, BEARER

TAG: Final = "Console"
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 32_768}
_LOGIN: Final = record(
    {"user": {**_TEXT, "maxLength": 1_000}, "password": {**_TEXT, "maxLength": 1_024}, "token": _TEXT},
    title="ConsoleLogin",
    optional=["user", "password", "token"],
)
_SESSION: Final = record(
    {
        "methods": listed(STRING),
        "principal": NULL_STRING,
        "csrf_token": NULL_STRING,
    },
    title="ConsoleSession",
)


async def get_session(context: RestContext, request: RestRequest) -> Answer:
    principal = None if _is_logged_out(context) else context.caller.principal
    return Answer(body=_session_as_json(context, principal, context.session))


def _is_logged_out(context: RestContext) -> bool:
    """Return True if the caller has to log in and has not."""
    return bool(context.authentication.methods) and context.caller.principal == ANONYMOUS


async def log_in(context: RestContext, request: RestRequest) -> Answer:
    body: Data = request.body
    authentication = context.authentication
    try:
        if "token" in body and BEARER in authentication.methods:
            principal, session_id, session = await _log_in_by_token(context, body["token"])
        elif {"user", "password"} <= body.keys() and BASIC in authentication.methods:
            principal, session_id, session = await _log_in_by_password(
                context, body["user"], body["password"]
            )
        else:
            ways = ", ".join(authentication.methods) or "none"
            raise bad_request(
                f"This node does not take this kind of login; ottla.rest.authentication has {ways}."
            )
    except WrongLogin:
        context.facts.logins.failed += 1
        raise RestError(
            401,
            AUTHENTICATION_FAILED,
            "The login failed: check the user and the password, or the token.",
            headers={"WWW-Authenticate": SESSION_CHALLENGE},
        ) from None
    context.facts.logins.successful += 1
    if context.session is not None:
        authentication.sessions.end(context.session)
    return Answer(
        body=_session_as_json(context, principal, session),
        headers={"Set-Cookie": _cookie(context, request, session_id)},
    )


async def _log_in_by_password(context: RestContext, user: str, password: str) -> tuple[str, str, Session]:
    credential = await context.authentication.check_password(user, password, context.address)
    principal = f"User:{user}"
    begun = context.authentication.sessions.begin(
        principal, now_s=context.authentication.now_s(), user=user, credential=credential
    )
    return principal, *begun


async def _log_in_by_token(context: RestContext, token: str) -> tuple[str, str, Session]:
    authentication = context.authentication
    verified = await authentication.check_token(token, context.address)
    principal = f"User:{verified.principal}"
    begun = authentication.sessions.begin(
        principal, now_s=authentication.now_s(), ends_s=authentication.end_of(verified)
    )
    return principal, *begun


async def log_out(context: RestContext, request: RestRequest) -> Answer:
    if context.session is not None:
        context.authentication.sessions.end(context.session)
    return Answer(status=204, headers={"Set-Cookie": f"{_cookie(context, request, '')}; Max-Age=0"})


def _session_as_json(context: RestContext, principal: str | None, session: Session | None) -> Data:
    return {
        "methods": list(context.authentication.methods),
        "principal": principal,
        "csrf_token": None if session is None else session.csrf_token,
    }


def _cookie(context: RestContext, request: RestRequest, value: str) -> str:
    # A proxy may have terminated TLS: the browser then still came by https.
    is_secure = context.has_tls or request.base_url.startswith("https:")
    name = context.authentication.cookie_name(context.has_tls)
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if is_secure else ''}"


ROUTES: Final = (
    Route(
        method="GET",
        path="/console/session",
        handler=get_session,
        operation_id="getConsoleSession",
        summary="The user who is logged in to the console, and the ways to log in.",
        tag=TAG,
        uses_cluster=False,
        is_open=True,
        is_documented=False,
        responses={200: Response(description="The session.", schema=_SESSION)},
    ),
    Route(
        method="POST",
        path="/console/login",
        handler=log_in,
        operation_id="logIn",
        summary="Log in to the console.",
        tag=TAG,
        uses_cluster=False,
        is_open=True,
        is_documented=False,
        request_schema=_LOGIN,
        body_is_required=True,
        responses={200: Response(description="The session.", schema=_SESSION)},
    ),
    Route(
        method="POST",
        path="/console/logout",
        handler=log_out,
        operation_id="logOut",
        summary="Log out of the console.",
        tag=TAG,
        uses_cluster=False,
        is_documented=False,
        responses={204: Response(description="Logged out.")},
    ),
)
