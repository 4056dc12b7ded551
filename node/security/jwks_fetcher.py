"""Fetches the keys of an OAuth provider over https, and keeps the last ones that were valid.

It requests only the configured URL, whose host must be allowed; a redirect is an error, since it could lead
anywhere. A fetch is limited to 5 s and 256 KiB. While the provider fails, tokens are verified with the keys
fetched last.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp

from ottla.node.clock import monotonic_s
from ottla.node.security.jwks import MAX_DOCUMENT_BYTES, JwksError, KeySet, read_jwks
from ottla.node.security.jwks_schedule import JwksSchedule
from ottla.node.settings.oauthbearer_settings import JwksPauses, check_url

FETCH_TIMEOUT_S: Final = 5.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=FETCH_TIMEOUT_S)
# A compressed response could expand to any size.
_HEADERS: Final = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity"}

log = logging.getLogger(__name__)


class JwksFetcher:
    """The keys of one provider in `keys`; `run` refreshes them until it is cancelled."""

    def __init__(
        self,
        url: str,
        *,
        allowed_hosts: tuple[str, ...],
        pauses: JwksPauses,
        trust: Callable[[], ssl.SSLContext],
    ) -> None:
        """`trust` returns the current TLS context for connections to the host of the URL."""
        check_url(url, allowed_hosts)
        self.keys = KeySet()
        self.problem = "they have not been fetched yet"  # empty once the last fetch succeeded
        self._url = url
        self._schedule = JwksSchedule(pauses)
        self._trust = trust
        self._wake = asyncio.Event()
        self._began_s = monotonic_s()

    def ask_for(self, kid: str) -> None:
        """Fetch the keys soon, since a token names an unknown one. Call it on the loop only."""
        if self._schedule.ask(kid, self._now_ms()):
            self._wake.set()

    async def run(self) -> None:
        """Fetch the keys at once, then by the schedule."""
        while True:
            await self.fetch()
            while (pause_ms := self._schedule.due_ms - self._now_ms()) > 0:
                self._wake.clear()
                try:
                    async with asyncio.timeout(pause_ms / 1_000):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def fetch(self) -> None:
        """Fetch the keys once; if that fails, keep the present ones."""
        try:
            keys = await self._read()
        except Exception as error:  # whatever the provider does, tokens are verified with the present keys
            problem = str(error) or type(error).__name__
            if problem != self.problem:
                log.warning("The keys of %s could not be fetched: %s", self._url, problem)
            self.problem = problem
            self._schedule.failed(self._now_ms())
            return
        self._schedule.fetched(self._now_ms())
        if self.problem or keys.left_out != self.keys.left_out:
            log.info(
                "%d keys of %s were fetched; %d others cannot verify tokens.",
                *(len(keys.keys), self._url, keys.left_out),
            )
        self.keys, self.problem = keys, ""

    async def _read(self) -> KeySet:
        connector = aiohttp.TCPConnector(ssl=self._trust(), limit=1, force_close=True)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=_TIMEOUT, auto_decompress=False, trust_env=False
            ) as session,
            session.get(self._url, headers=_HEADERS, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise JwksError(f"the response has the status {answer.status}")
            document = bytearray()
            async for piece in answer.content.iter_any():
                document += piece
                if len(document) > MAX_DOCUMENT_BYTES:
                    raise JwksError(f"the document has more than {MAX_DOCUMENT_BYTES} bytes")
        return read_jwks(bytes(document))

    def _now_ms(self) -> int:
        return int((monotonic_s() - self._began_s) * 1_000)
