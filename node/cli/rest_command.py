"""`ottla rest`: sends one request to the REST API of a node, and prints the answer.

Redirects are not followed, so a login goes to the given address alone. An answer is printed in pieces as it
arrives; only a part of bounded size is held, to indent it, to find the sentence of an error, or for
`--output json`.
"""

import asyncio
import codecs
import io
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.answers import print_bytes, print_json
from ottla.node.cli.command_config import RestConnection
from ottla.node.cli.failure import EXIT_FAILURE, EXIT_USAGE, CommandError
from ottla.node.client.exact_json import load_json
from ottla.node.secure_client.client_context import client_context
from ottla.node.secure_client.client_security import ClientSecurityError
from ottla.node.secure_client.dial_refusals import tls_refusal
from ottla.node.secure_client.http_login import authorization_of

MAX_DATA_BYTES: Final = 64 << 20  # beyond the largest body that a REST API takes by default
MAX_HELD_BYTES: Final = 4 << 20  # an answer that is indented, or the body in the document of --output json
MAX_SENTENCE_CHARS: Final = 1_000
_JSON: Final = "application/json"
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}): ?([\x20-\x7e]{0,4000})")
_OF_THE_LOGIN: Final = ("authorization", "cookie", "proxy-authorization")
_OF_THE_CONNECTION: Final = ("connection", "content-length", "host", "transfer-encoding", "upgrade")
_WHERE: Final = "Check the address after --url, in OTTLA_REST, or rest.url of the profile."


class RestRequest(NamedTuple):
    """A request to a REST API, as the options of the command give it."""

    method: str
    path: str  # from the root of the API, with its query
    data: bytes | None
    headers: Sequence[tuple[str, str]]
    timeout_s: float  # until the answer begins, and for each further piece of it


def request_of(
    method: str, path: str, data: str | None, headers: Sequence[str], timeout_s: float
) -> RestRequest:
    """Return the request for these options; CommandError if they cannot be sent.

    `data` is the body, `@FILE`, or `-` for standard input.
    """
    if not path.startswith("/"):
        raise CommandError(f"The path {path[:80]!r} must begin with a slash, as in /v3/clusters.", EXIT_USAGE)
    given = [_header(one) for one in headers]
    if data is not None and "content-type" not in {name.lower() for name, _ in given}:
        given.append(("Content-Type", _JSON))
    # Characters that a URL cannot have are encoded; those that are encoded already stay as they are.
    target = quote(path, safe="/?&=:;,@+!$'()*~%")
    return RestRequest(method, target, None if data is None else _data(data), given, timeout_s)


def _header(text: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(text)
    if found is None:
        raise CommandError(f"{escape_controls(text[:80])!r} is not a header: write NAME: VALUE.", EXIT_USAGE)
    name = found[1].lower()
    if name in _OF_THE_LOGIN:
        raise CommandError(
            f"The header {found[1]} is a secret, which others on this machine could see: give the login in "
            "--command-config or a profile.",
            EXIT_USAGE,
        )
    if name in _OF_THE_CONNECTION:
        raise CommandError(f"The header {found[1]} is set by the command itself.", EXIT_USAGE)
    return found[1], found[2]


def _data(text: str) -> bytes:
    if text != "-" and not text.startswith("@"):
        return os.fsencode(text)
    try:
        if text == "-":
            source, content = "standard input", sys.stdin.buffer.read(MAX_DATA_BYTES + 1)
        else:
            source = text[1:]
            with Path(source).open("rb") as file:
                content = file.read(MAX_DATA_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{source} cannot be read: {error.strerror}.", EXIT_USAGE) from None
    if len(content) > MAX_DATA_BYTES:
        raise CommandError(f"{source} has more than {MAX_DATA_BYTES >> 20} MiB.", EXIT_USAGE)
    return content


async def ask(connection: RestConnection, request: RestRequest, *, as_json: bool) -> int:
    """Send the request, print the body of the answer, and return the exit code: 0 if the status is 2xx."""
    url = connection.url
    tls, login = await asyncio.to_thread(_proof, connection)
    headers = [*request.headers, ("Accept-Encoding", "identity"), *login]
    sockets: list[socket.socket] = []
    connector = aiohttp.TCPConnector(
        ssl=tls if tls is not None else True, force_close=True, socket_factory=partial(_new_socket, sockets)
    )
    try:
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),  # an answer may go on for ever
            auto_decompress=False,
            trust_env=False,
        ) as session:
            try:
                async with asyncio.timeout(request.timeout_s):
                    answer = await session.request(
                        request.method,
                        URL(url.text + request.path, encoded=True),
                        data=None if request.data is None else io.BytesIO(request.data),
                        headers=headers,
                        allow_redirects=False,
                    )
                async with answer:
                    return await _print(answer, _pieces_of(answer, request.timeout_s), as_json=as_json)
            finally:
                # A loop that closes would wait until a server that does not read has taken the body.
                for one in sockets:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
    except TimeoutError:
        raise CommandError(
            f"{url.text} did not answer within {request.timeout_s:g} s. Try again, or use a longer --timeout."
        ) from None
    except aiohttp.ClientError as error:
        raise _refused(url.text, error) from None


def _new_socket(sockets: list[socket.socket], address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for an address, and append it to those of the command."""
    sockets.append(socket.socket(*address[:3]))
    return sockets[-1]


def _proof(connection: RestConnection) -> tuple[ssl.SSLContext | None, list[tuple[str, str]]]:
    """Return the TLS of the connection and the header of its login. It reads files, and may fetch a token."""
    security = connection.security
    tls = None if security.tls is None else client_context(security.tls)
    if security.login is None:
        return tls, []
    try:
        return tls, [("Authorization", authorization_of(security.login))]
    except ClientSecurityError as error:
        raise CommandError(escape_controls(f"{error}."), EXIT_USAGE) from None


def _refused(address: str, error: aiohttp.ClientError) -> CommandError | KafkaError:
    """Return the error of the command for one of the connection."""
    problem = "the connection was lost"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        cause = error.__cause__ or error
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            cause = error.certificate_error
        elif isinstance(error.os_error, ssl.SSLError):
            cause = error.os_error
        if isinstance(cause, ssl.SSLError) and cause.reason != "WRONG_VERSION_NUMBER":
            return tls_refusal(address, cause)
        problem = "the server there does not use TLS, so use an http URL"
    elif isinstance(error, aiohttp.ClientConnectorError):
        of_system = error.os_error
        if isinstance(of_system, socket.gaierror):
            problem = "the host name cannot be resolved"
        elif of_system.errno:
            problem = os.strerror(of_system.errno).lower()
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        problem = "the connection was closed without an answer; the server may use TLS (https)"
    elif isinstance(error, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        problem = "the answer is not HTTP, or was cut off"
    return CommandError(f"{address}: {problem}. {_WHERE}")


# ---- the answer ----------------------------------------------------------------------------------


async def _pieces_of(answer: aiohttp.ClientResponse, timeout_s: float) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; TimeoutError if nothing does for so long."""
    while True:
        async with asyncio.timeout(timeout_s):
            piece = await answer.content.readany()
        if not piece:
            return
        yield piece


async def _print(answer: aiohttp.ClientResponse, pieces: AsyncIterator[bytes], *, as_json: bool) -> int:
    is_right = 200 <= answer.status < 300
    is_json = "json" in answer.content_type
    for_terminal = sys.stdout.isatty()
    held, is_whole = b"", False
    if as_json or not is_right or (for_terminal and is_json):
        held, is_whole = await _hold(pieces)
    if as_json:
        if not is_whole:
            raise CommandError(
                f"The answer has more than {MAX_HELD_BYTES >> 20} MiB: without --output json it is printed "
                "in pieces."
            )
        print_json({"status": answer.status, "body": _loaded(held)})
    elif for_terminal:
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        if is_whole and is_json:
            held = _indented(held)
        _print_escaped(decoder.decode(held))
        async for piece in pieces:
            _print_escaped(decoder.decode(piece))
    else:
        print_bytes(last := held)
        async for piece in pieces:
            print_bytes(last := piece)
        if is_json and last and not last.endswith(b"\n"):
            print_bytes(b"\n")
    if not is_right:
        print(f"ottla: {_sentence(answer, held)}", file=sys.stderr)
    return 0 if is_right else EXIT_FAILURE


async def _hold(pieces: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Return the beginning of an answer, and whether it is the whole of it."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) > MAX_HELD_BYTES:
            return bytes(held), False
    return bytes(held), True


def _loaded(body: bytes) -> object:
    """Return a body as a value of JSON: a text if it is not JSON, None if it is empty."""
    if not body:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _indented(body: bytes) -> bytes:
    """Return the document indented, with its numbers as they are; unchanged if it is not one document."""
    try:
        return orjson.dumps(load_json(body), option=orjson.OPT_INDENT_2) + b"\n"
    except (ValueError, TypeError):  # several documents, or numbers that orjson does not write
        return body


def _print_escaped(text: str) -> None:
    print_bytes(escape_controls(text, keeps_lines=True).encode())


def _sentence(answer: aiohttp.ClientResponse, body: bytes) -> str:
    """Return the sentence of an error: the message of the REST API, else the reason of the status."""
    found = _loaded(body) if "json" in answer.content_type else None
    message = found.get("message") if isinstance(found, dict) else None
    if 300 <= answer.status < 400:
        location = answer.headers.get("Location", "another address")
        message = f"The server redirects to {location}, which is not followed."
    if not isinstance(message, str) or not message:
        message = f"The server answered {answer.reason or _reason(answer.status)}."
    advice = ""
    if answer.status == HTTPStatus.UNAUTHORIZED:
        advice = " The login comes from sasl.* or ssl.keystore.* of --command-config or the profile."
    return f"{escape_controls(message[:MAX_SENTENCE_CHARS])} (HTTP {answer.status}){advice}"


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "an unknown status"
