"""An OAuth provider on this machine, which publishes the keys of tests/tokens.py over https."""

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from aiohttp import BasicAuth, web

from tests.tokens import claims, document, public_jwk, token

WAIT_S = 30
SECRET = "a secret of the client"
# The bodies of the token requests that the provider received, by client id.
REQUESTS: dict[str, list[str]] = {}


@contextmanager
def serve_keys(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the URL of the keys, and the file with the CA of their host."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    content = document(public_jwk("rsa"), public_jwk("ES256"))
    ports: list[int] = []
    is_ready, is_over, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/keys", answer)
        app.router.add_post("/token", give_token)
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

    async def give_token(request: web.Request) -> web.StreamResponse:
        """Answer a token request; the client id selects a good token or a failure."""
        given = BasicAuth.decode(request.headers["Authorization"])
        REQUESTS.setdefault(given.login, []).append(await request.text())
        good = {"access_token": token(claims(int(time.time()), sub=given.login)), "expires_in": 600}
        match given.login:
            case _ if given.password != SECRET:
                return web.json_response({"error": "invalid_client", "secret": given.password}, status=401)
            case "moved":
                raise web.HTTPTemporaryRedirect("/keys")
            case "huge":
                return web.json_response({**good, "more": "x" * 100_000})
            case "text":
                return web.Response(text="no JSON")
            case "spaced":
                return web.json_response({"access_token": "two words"})
            case "busy":
                return web.json_response({"error": "temporarily_unavailable"}, status=503)
            case "drip":
                slow_response = web.StreamResponse()
                await slow_response.prepare(request)
                for _ in range(100):
                    await slow_response.write(b" ")
                    await asyncio.sleep(0.1)
                return slow_response
            case "no expiry":
                return web.json_response({"id_token": good["access_token"]})
        return web.json_response(good)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert is_ready.wait(WAIT_S)
    try:
        yield f"https://localhost:{ports[0]}/keys", folder / "ca.pem"
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join(WAIT_S)
        loop.close()
