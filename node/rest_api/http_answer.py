"""From what handlers give to HTTP: short answers whole, long ones and streams in pieces as they are read."""

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

WRITE_TIMEOUT_S: Final = 30.0  # for a reader to take a piece
LAST_WORDS_TIMEOUT_S: Final = 2.0  # and to hear why a stream ends
PIECE_BYTES: Final = 256 * 1024
SHORT_BYTES: Final = 64 * 1024  # what a transport takes before it says that its peer does not read
RETRY_AFTER_S: Final = "1"  # a new leader mostly is there by then, and what was too much has ended
SERVER: Final = "Ottla"  # aiohttp's own names its version and that of Python
SECURITY_HEADERS: Final = {
    hdrs.SERVER: SERVER,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# Within it something goes on while a login holds; RestError when it does not.
Standing = Callable[[], AbstractAsyncContextManager[None]]


def error_answer(error: RestError) -> web.Response:
    # Words of a request's head that are quoted may have bytes that are no UTF-8.
    message = error.message.encode("utf-8", "backslashreplace").decode()
    body = orjson.dumps({"error_code": error.error_code, "message": message})
    headers = {**SECURITY_HEADERS, hdrs.CONTENT_TYPE: JSON, **error.headers}
    if error.retry_after_s is not None:
        headers[hdrs.RETRY_AFTER] = str(error.retry_after_s)
    elif error.status in (429, 503):
        headers[hdrs.RETRY_AFTER] = RETRY_AFTER_S
    return web.Response(status=error.status, body=body, headers=headers)


def encoded(answer: Answer) -> Answer:
    """The same answer as bytes, so that its objects are kept no longer."""
    return answer if answer.body is None else replace(answer, body=None, content=orjson.dumps(answer.body))


async def send_answer(
    request: web.Request, answer: Answer, part: AnswerPart, while_it_holds: Standing
) -> web.StreamResponse:
    """An `encoded` answer that is whole; RestError 429 if there is no room for it.

    It is cut off when its caller's login ends.
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
    """An answer that is made while it is read; `on_piece` is told of each piece that left.

    When its caller's login ends, its last piece says so.
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
            # aiohttp leaves out the content of a whole answer to HEAD, not what is written in pieces.
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
                    response.force_close()  # nothing more is taken of a body
                    async with asyncio.timeout(LAST_WORDS_TIMEOUT_S):
                        await response.write(failure(error))
            await response.write_eof()
        except (ConnectionError, ClientConnectionResetError):
            return response  # nobody reads it any more
        except (RestError, KafkaError, OSError):
            # The status has been sent; an answer that ends in its middle is seen to be cut.
            if request.transport is not None:
                request.transport.abort()
    return response
