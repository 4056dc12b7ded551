"""Answers in HTTP: short ones at once, long ones and streams in pieces as the client reads them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Final

import orjson
from aiohttp import ClientConnectionResetError, hdrs, web

from ottla.logstore.words.errors import KafkaError
from ottla.node.rest_api.answer_room import AnswerPart
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.route import JSON, Answer

WRITE_TIMEOUT_S: Final = 30.0  # for a client to read a piece
LAST_WORDS_TIMEOUT_S: Final = 2.0  # and to read the error that ends a stream
PIECE_BYTES: Final = 256 * 1024
SHORT_BYTES: Final = 64 * 1024  # a transport buffers this much before it reports that its peer does not read
RETRY_AFTER_S: Final = "1"  # by then a partition mostly has a new leader, and a burst of requests has ended
SERVER: Final = "Ottla"  # aiohttp's own header shows its version and Python's
SECURITY_HEADERS: Final = {
    hdrs.SERVER: SERVER,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# A context in which work goes on while a login is valid; RestError once it is not.
Standing = Callable[[], AbstractAsyncContextManager[None]]


def error_answer(error: RestError) -> web.Response:
    # A quoted part of a request's head may contain bytes that are not UTF-8.
    message = error.message.encode("utf-8", "backslashreplace").decode()
    body = orjson.dumps({"error_code": error.error_code, "message": message})
    headers = {**SECURITY_HEADERS, hdrs.CONTENT_TYPE: JSON, **error.headers}
    if error.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(error.retry_after_s)
    elif error.status in (429, 503):
        headers[hdrs.RETRY_AFTER] = RETRY_AFTER_S
    return web.Response(status=error.status, body=body, headers=headers)


def encoded(answer: Answer) -> Answer:
    """Return an answer encoded as bytes, so that its objects can be freed."""
    return answer if answer.body is None else replace(answer, body=None, content=orjson.dumps(answer.body))


async def send_answer(
    request: web.Request, answer: Answer, part: AnswerPart, while_it_holds: Standing
) -> web.StreamResponse:
    """Send an `encoded` answer that is complete; RestError 429 if there is no room for it.

    The connection is cut off when the login of the caller ends.
    """
    headers = {**SECURITY_HEADERS, **answer.headers}
    content = answer.content
    if content is None:
        return web.Response(status=answer.status, headers=headers)
    headers[hdrs.CONTENT_TYPE] = answer.content_type
    if len(content) <= SHORT_BYTES:
        return web.Response(status=answer.status, body=content, headers=headers)
    part.leave(len(content))
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = len(content)
    return await _write(request, response, _pieces(content), while_it_holds)


async def send_stream(
    request: web.Request,
    answer: Answer,
    pieces: AsyncGenerator[bytes, None],
    on_piece: Callable[[], object],
    while_it_holds: Standing,
) -> web.StreamResponse:
    """Send an answer that is made while the client reads it; call `on_piece` after each piece sent.

    When the login of the caller ends, the last piece is an error that says so.
    """
    headers = {**SECURITY_HEADERS, **answer.headers, hdrs.CONTENT_TYPE: answer.content_type}
    response = web.StreamResponse(status=answer.status, headers=headers)
    return await _write(request, response, pieces, while_it_holds, on_piece, answer.failure)


async def _pieces(content: bytes) -> AsyncGenerator[memoryview, None]:
    view = memoryview(content)
    for begin in range(0, len(view), PIECE_BYTES):
        yield view[begin : begin + PIECE_BYTES]


async def _write(
    request: web.Request,
    response: web.StreamResponse,
    pieces: AsyncGenerator[bytes, None] | AsyncGenerator[memoryview, None],
    while_it_holds: Standing,
    on_piece: Callable[[], object] = lambda: None,
    failure: Callable[[RestError], bytes] | None = None,
) -> web.StreamResponse:
    async with aclosing(pieces):
        await response.prepare(request)
        try:
            # aiohttp omits the content of a complete answer to HEAD, but not pieces that are written.
            if request.method != hdrs.METH_HEAD:
                try:
                    async with while_it_holds():
                        async for piece in pieces:
                            async with asyncio.timeout(WRITE_TIMEOUT_S):
                                await response.write(piece)
                            on_piece()
                except RestError as error:
                    if failure is None:
                        raise
                    response.force_close()  # the rest of the request's body is not read
                    async with asyncio.timeout(LAST_WORDS_TIMEOUT_S):
                        await response.write(failure(error))
            await response.write_eof()
        except (ConnectionError, ClientConnectionResetError):
            return response  # the client has disconnected
        except (RestError, KafkaError, OSError):
            # The status has been sent: without a proper end, the client sees that the answer is incomplete.
            if request.transport is not None:
                request.transport.abort()
    return response
