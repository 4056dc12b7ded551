"""Verifies the access tokens that clients of a listener show, by the keys that their provider has now.

Loaded only where OAUTHBEARER is enabled, as `jwt` and `jwks_fetcher` are.
"""

import asyncio
import logging
from collections.abc import Callable

from ottla.node.net.client_lines import ClientLines
from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.jwks_fetcher import JwksFetcher
from ottla.node.security.jwt import verify_token
from ottla.node.security.trust_file import TrustFile
from ottla.node.settings.oauthbearer_settings import OauthBearer

log = logging.getLogger(__name__)


class TokenVerifier:
    """`verify` is what an OauthBearerExchange asks; `run` keeps the keys fresh until it is cancelled.

    Both need the node's loop.
    """

    @classmethod
    async def make(cls, settings: OauthBearer, *, now_ms: Callable[[], int]) -> "TokenVerifier":
        """Return one for these settings; INVALID_CONFIG where the file of authorities cannot be used."""
        return cls(settings, await TrustFile.open(settings.truststore_location), now_ms=now_ms)

    def __init__(self, settings: OauthBearer, trust: TrustFile, *, now_ms: Callable[[], int]) -> None:
        """`trust` has the authorities that the host of the keys needs."""
        self._lines = ClientLines(log)
        self._rules = settings.rules
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._trust = trust
        self._fetcher = JwksFetcher(
            settings.url,
            allowed_hosts=settings.allowed_hosts,
            pauses=settings.pauses,
            trust=lambda: trust.context,
        )

    @property
    def problem(self) -> str:
        """Return the reason why the last fetch of keys failed; empty if it did not."""
        return self._fetcher.problem

    @property
    def refused(self) -> str:
        """Return why a new file of authorities was not taken over; empty if it was."""
        return self._trust.refused

    async def run(self) -> None:
        """Fetch the keys now, and whenever it is time; follow the file of authorities."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fetcher.run())
            tasks.create_task(self._trust.follow())

    def verify(self, token: str) -> VerifiedToken:
        """Return what a token says, JwtError if it is not accepted; for any thread.

        A token with an unknown key is refused, and has the keys fetched soon: its client tries again.
        """
        try:
            return verify_token(token, self._fetcher.keys, self._rules, self._now_ms())
        except JwtError as error:
            if error.unknown_kid is not None:
                self._loop.call_soon_threadsafe(self._fetcher.ask_for, error.unknown_kid)
            # From where is in the audit log: here are the tokens of all clients.
            self._lines.tell(logging.INFO, "", "An access token is not accepted: %s", error)
            raise
