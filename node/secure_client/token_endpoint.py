"""Fetches access tokens from an OAuth provider with the id and secret of the client (RFC 6749, 4.4).

Requests go only to the configured URL, over https, and no redirect is followed, so the secret goes nowhere
else. A fetch is limited to ten seconds and 64 KiB. A token is cached for most of its lifetime, since a client
with many connections logs in often. Fetching blocks, so it must not be called on the loop.
"""

import base64
import http.client
import json
import socket
import ssl
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.clock import monotonic_s
from ottla.node.secure_client.client_context import client_context
from ottla.node.secure_client.client_security import (
    TOKEN_URL,
    ClientCredentials,
    ClientSecurityError,
    may_be_token,
)

FETCH_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 64 * 1024  # a token must fit into a login's frame, which has this limit
MAX_KEPT: Final = 64  # of a process, one for each cluster and user
KEPT_FOR: Final = 0.8  # of its lifetime, so that no login begins with a token that is about to expire
MAX_KEPT_S: Final = 3_600.0
_MAX_ERROR: Final = 100
_TOKEN_FIELDS: Final = ("access_token", "id_token")

_kept: OrderedDict[ClientCredentials, tuple[str, float]] = (
    OrderedDict()
)  # with the time until which the token is kept
_lock: Final = threading.Lock()  # logins of all connections


def token_for(credentials: ClientCredentials) -> str:
    """Return an access token, fetched unless one is cached.

    NETWORK_EXCEPTION if the provider cannot be reached now, SASL_AUTHENTICATION_FAILED if it rejects the
    client, INVALID_CONFIG for an unreadable truststore; ClientSecurityError for a response without a token.
    """
    with _lock:
        found = _kept.get(credentials)
    if found is not None and monotonic_s() < found[1]:
        return found[0]
    began_s = monotonic_s()
    token, lifetime_s = _token_in(_answer(credentials))
    with _lock:
        _kept.pop(credentials, None)
        if lifetime_s > 0:
            _kept[credentials] = token, began_s + min(lifetime_s * KEPT_FOR, MAX_KEPT_S)
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return token


def forget(credentials: ClientCredentials) -> None:
    """Drop a cached token that a server rejected."""
    with _lock:
        _kept.pop(credentials, None)


def _answer(credentials: ClientCredentials) -> dict[str, object]:
    """Send the request to the provider; return the JSON object of its response."""
    url = urlsplit(credentials.url)
    assert url.hostname is not None, "the settings were read"
    context = ssl.create_default_context() if credentials.tls is None else client_context(credentials.tls)
    connection = http.client.HTTPSConnection(
        url.hostname, url.port or 443, timeout=FETCH_SECONDS, context=context
    )
    # The timeout of a socket restarts with each byte.
    deadline = threading.Timer(FETCH_SECONDS, _end, [connection])
    deadline.daemon = True
    deadline.start()
    try:
        path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        connection.request("POST", path, body=_body(credentials), headers=_headers(credentials))
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise KafkaError(
            ErrorCode.NETWORK_EXCEPTION, f"no token could be fetched from {url.hostname}: {problem}"
        ) from None
    finally:
        deadline.cancel()
        connection.close()
    fields = _object_in(content)
    if answer.status != 200:
        raise _refused(url.hostname, answer.status, fields)
    return fields


def _end(connection: http.client.HTTPSConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _body(credentials: ClientCredentials) -> bytes:
    fields = {"grant_type": "client_credentials"}
    if credentials.scope:
        fields["scope"] = credentials.scope
    return urlencode(fields).encode()


def basic(user: str, password: str) -> str:
    """Return the value of a header Authorization with these credentials (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _headers(credentials: ClientCredentials) -> dict[str, str]:
    user, secret = credentials.client_id, credentials.client_secret
    if credentials.encodes_header:
        user, secret = quote_plus(user), quote_plus(secret)
    return {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": basic(user, secret),
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _object_in(content: bytes) -> dict[str, object]:
    if len(content) > MAX_ANSWER_BYTES:
        return {}
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refused(host: str, status: int, fields: dict[str, object]) -> KafkaError:
    """Return the error for a failed request; of the response's body it shows only RFC 6749's error code."""
    word = fields.get("error")
    reason = f" ({word[:_MAX_ERROR]})" if isinstance(word, str) and word.isprintable() and word else ""
    is_passing = status >= 500 or status in (408, 429)
    code = ErrorCode.NETWORK_EXCEPTION if is_passing else ErrorCode.SASL_AUTHENTICATION_FAILED
    return KafkaError(code, f"{host} returned no token: HTTP {status}{reason}")


def _token_in(fields: dict[str, object]) -> tuple[str, float]:
    """Return the token of a response, and its lifetime in seconds, 0 if the provider does not give it."""
    token = next((one for name in _TOKEN_FIELDS if isinstance(one := fields.get(name), str) and one), "")
    if not token or not may_be_token(token):
        raise ClientSecurityError(TOKEN_URL, "names a server whose answer has no token")
    lifetime_s = fields.get("expires_in")
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float) or not 0 < lifetime_s < 1e9:
        return token, 0.0
    return token, float(lifetime_s)
