"""Verifies the access tokens of a listener's clients with the current keys of the OAuth provider.

The module is loaded only if OAUTHBEARER is enabled, like `jwt` and `jwks_fetcher`.
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
    """The verifier of one listener: `verify` is called by OauthBearerExchange, `run` refreshes the keys.

    It must be made on the node's loop, which has to run for both of them.
    """

    @classmethod
    async def make(cls, settings: OauthBearer, *, now_ms: Callable[[], int]) -> "TokenVerifier":
        """Return a verifier for these settings; INVALID_CONFIG if the truststore file cannot be used."""
        return cls(settings, await TrustFile.open(settings.truststore_location), now_ms=now_ms)

    def __init__(self, settings: OauthBearer, trust: TrustFile, *, now_ms: Callable[[], int]) -> None:
        """`trust` has the authorities that sign the certificate of the provider's host."""
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
        """The reason why the last fetch of keys failed, or "" if it succeeded."""
        return self._fetcher.problem

    @property
    def refused(self) -> str:
        """The reason why the changed truststore file was rejected, or ""."""
        return self._trust.refused

    async def run(self) -> None:
        """Refresh the keys, and reload the truststore file when it changes, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fetcher.run())
            tasks.create_task(self._trust.follow())

    def verify(self, token: str) -> VerifiedToken:
        """Return the contents of a token; JwtError if it is rejected. Thread-safe.

        A token with an unknown key is rejected, but the keys are fetched soon, so that a retry of the client
        succeeds if the provider has added a key.
        """
        try:
            return verify_token(token, self._fetcher.keys, self._rules, self._now_ms())
        except JwtError as error:
            if error.unknown_kid is not None:
                self._loop.call_soon_threadsafe(self._fetcher.ask_for, error.unknown_kid)
            # The client's address is in the audit log; these lines are limited for all clients together.
            self._lines.log(logging.INFO, "", "An access token was rejected: %s", error)
            raise
