"""An OAuth provider on this machine, which publishes the keys of tests/tokens.py over https."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from aiohttp import web

from tests.tokens import document, public_jwk

WAIT_S = 30


@contextmanager
def serve_keys(folder: Path) -> Iterator[tuple[str, Path]]:
    """Give the URL of keys, and the file with the authority of their host."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    content = document(public_jwk("rsa"), public_jwk("ES256"))
    ports: list[int] = []
    is_ready, is_over, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/keys", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert("localhost").configure_cert(context)
        await web.TCPSite(runner, "localhost", 0, ssl_context=context).start()
        ports.append(runner.addresses[0][1])
        is_ready.set()
        await is_over.wait()
        await runner.cleanup()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=content)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert is_ready.wait(WAIT_S)
    try:
        yield f"https://localhost:{ports[0]}/keys", folder / "ca.pem"
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(WAIT_S)
        loop.close()
