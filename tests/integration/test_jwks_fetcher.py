"""The keys of a provider are fetched over https from trusted hosts only, and kept while it fails."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from ottla.node.security import trust_file
from ottla.node.security.jwks import MAX_DOCUMENT_BYTES
from ottla.node.security.jwks_fetcher import JwksFetcher
from ottla.node.security.jwks_schedule import TOKEN_FETCH_PAUSE_MS
from ottla.node.security.sasl.oauthbearer import INVALID_TOKEN, OauthBearerExchange
from ottla.node.security.token_verifier import TokenVerifier
from ottla.node.settings.oauthbearer_settings import JwksPauses, OauthBearer, TokenRules
from tests.tokens import AUDIENCE, ISSUER, claims, document, public_jwk, token

GOOD = document(public_jwk("rsa"))
WAIT_S = 30
PAUSES = JwksPauses(refresh_ms=3_600_000, retry_backoff_ms=20, retry_backoff_max_ms=50)


class Provider:
    """A server of keys, whose answer a test can set."""

    def __init__(self, ca: trustme.CA) -> None:
        self.requests = 0
        self.answer: Callable[[], web.Response] = lambda: web.Response(body=GOOD)
        self.url = ""
        self._ca = ca

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/keys", self._serve)
        app.router.add_get("/other", self._serve)
        runner = web.AppRunner(app)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert("localhost").configure_cert(context)
        site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"https://localhost:{port}/keys"
        return runner

    async def _serve(self, request: web.Request) -> web.Response:
        self.requests += 1
        if request.path == "/other":
            return web.Response(body=GOOD)
        return self.answer()


def run(act: Callable[[Provider, JwksFetcher], Awaitable[None]], *, is_trusted: bool = True) -> None:
    async def scene() -> None:
        ca = trustme.CA()
        provider = Provider(ca)
        runner = await provider.start()
        trust = ssl.create_default_context()
        if is_trusted:
            ca.configure_trust(trust)
        try:
            fetcher = JwksFetcher(
                provider.url, allowed_hosts=("localhost",), pauses=PAUSES, trust=lambda: trust
            )
            await asyncio.wait_for(act(provider, fetcher), WAIT_S)
        finally:
            await runner.cleanup()

    asyncio.run(scene())


def test_keys_are_fetched_and_stay_when_the_provider_fails() -> None:
    async def scene(provider: Provider, fetcher: JwksFetcher) -> None:
        assert fetcher.keys.keys == () and fetcher.problem
        await fetcher.fetch()
        found = fetcher.keys
        provider.answer = lambda: web.Response(status=500)
        await fetcher.fetch()

        assert [key.kid for key in found.keys] == ["rsa"]
        assert fetcher.keys is found and "500" in fetcher.problem

    run(scene)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda: web.Response(status=302, headers={"Location": "/other"}), "the status 302"),
        (lambda: web.Response(body=b" " * (MAX_DOCUMENT_BYTES + 1)), "more than"),
        (lambda: web.Response(body=b"<html>"), "not JSON"),
        (lambda: web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "not JSON"),
        (lambda: web.Response(body=document(public_jwk("weak"))), "none of the 1 keys"),
    ],
    ids=["redirect", "too large", "no JSON", "compressed", "no key"],
)
def test_a_response_without_a_usable_key_is_ignored(answer: Callable[[], web.Response], problem: str) -> None:
    async def scene(provider: Provider, fetcher: JwksFetcher) -> None:
        provider.answer = answer
        await fetcher.fetch()

        assert problem in fetcher.problem and fetcher.keys.keys == ()
        assert provider.requests == 1, "a redirect is not followed"

    run(scene)


def test_tokens_are_verified_with_current_keys_and_a_new_key_is_fetched(tmp_path: Path) -> None:
    now_s = int(time.time())
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    async def scene() -> None:
        provider = Provider(ca)
        runner = await provider.start()
        verifier = await TokenVerifier.make(
            OauthBearer(
                url=provider.url,
                allowed_hosts=("localhost",),
                truststore_location=str(tmp_path / "ca.pem"),
                pauses=PAUSES,
                rules=TokenRules(audiences=frozenset({AUDIENCE}), issuer=ISSUER),
            ),
            now_ms=lambda: now_s * 1_000,
        )
        running = asyncio.ensure_future(verifier.run())
        try:
            while verifier.problem:
                await asyncio.sleep(0.01)
            exchange = OauthBearerExchange(verifier.verify)
            await asyncio.to_thread(exchange.respond, message(token(claims(now_s))))
            assert (exchange.user, exchange.expires_ms) == ("alice", (now_s + 600) * 1_000)

            provider.answer = lambda: web.Response(body=document(public_jwk("other")))
            again = OauthBearerExchange(verifier.verify)
            assert again.respond(message(token(claims(now_s), key="other"))) == INVALID_TOKEN.encode()
            while provider.requests < 2 or not is_accepted(verifier):
                await asyncio.sleep(0.01)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await runner.cleanup()

    def message(text: str) -> bytes:
        return b"n,,\x01auth=Bearer %b\x01\x01" % text.encode()

    def is_accepted(verifier: TokenVerifier) -> bool:
        exchange = OauthBearerExchange(verifier.verify)
        return exchange.respond(message(token(claims(now_s), key="other"))) == b"" and exchange.is_complete

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.node.security.jwks_schedule.TOKEN_FETCH_PAUSE_MS", 50)
        asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def test_a_provider_with_a_new_ca_is_trusted_once_the_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the file is missing, the old CA counts, and so do the keys that were fetched last."""
    monkeypatch.setattr(trust_file, "LOOK_SECONDS", 0.05)
    place, old, new = tmp_path / "ca.pem", trustme.CA(), trustme.CA()
    old.cert_pem.write_to_path(str(place))

    async def scene() -> None:
        provider = Provider(new)
        runner = await provider.start()
        verifier = await TokenVerifier.make(
            OauthBearer(
                url=provider.url,
                allowed_hosts=("localhost",),
                truststore_location=str(place),
                pauses=PAUSES,
                rules=TokenRules(audiences=frozenset({AUDIENCE}), issuer=ISSUER),
            ),
            now_ms=lambda: 0,
        )
        running = asyncio.ensure_future(verifier.run())
        try:
            while "CERTIFICATE_VERIFY_FAILED" not in verifier.problem:
                await asyncio.sleep(0.01)
            place.unlink()
            await asyncio.sleep(0.3)
            assert "CERTIFICATE_VERIFY_FAILED" in verifier.problem and provider.requests == 0
            new.cert_pem.write_to_path(str(place))
            while verifier.problem:
                await asyncio.sleep(0.01)
            assert provider.requests == 1 and not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await runner.cleanup()

    asyncio.run(asyncio.wait_for(scene(), WAIT_S))


def test_an_untrusted_provider_gets_no_request() -> None:
    async def scene(provider: Provider, fetcher: JwksFetcher) -> None:
        await fetcher.fetch()

        assert "CERTIFICATE_VERIFY_FAILED" in fetcher.problem and provider.requests == 0

    run(scene, is_trusted=False)


def test_a_failed_fetch_is_repeated_until_it_succeeds() -> None:
    async def scene(provider: Provider, fetcher: JwksFetcher) -> None:
        provider.answer = lambda: web.Response(body=GOOD, status=500 if provider.requests < 4 else 200)
        running = asyncio.ensure_future(fetcher.run())
        while fetcher.problem:
            await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

        assert provider.requests == 4 and fetcher.keys.keys

    run(scene)


def test_an_unknown_key_is_fetched_and_a_thousand_made_up_ones_cause_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.node.security.jwks_schedule.TOKEN_FETCH_PAUSE_MS", 200)

    async def scene(provider: Provider, fetcher: JwksFetcher) -> None:
        running = asyncio.ensure_future(fetcher.run())
        while fetcher.problem:
            await asyncio.sleep(0.01)
        provider.answer = lambda: web.Response(body=document(public_jwk("rsa"), public_jwk("other")))
        for number in range(1_000):
            fetcher.ask_for(f"made-up-{number}")
        fetcher.ask_for("other")
        while len(fetcher.keys.keys) < 2:
            await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

        assert provider.requests == 2

    assert TOKEN_FETCH_PAUSE_MS > 200
    run(scene)
