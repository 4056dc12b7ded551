"""The verifiers of access tokens, one for each listener, made when the listener first takes any.

That may be while the node runs: the mechanisms of a listener may change (`sasl.enabled.mechanisms`). Until
the verifier is there OAUTHBEARER is not offered. A change that could not be carried out is refused; one that
came from elsewhere (of an earlier run) is tried again until it can.
"""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.node.handing_over import StartTask
from ottla.node.security.access_token import VerifiedToken
from ottla.node.security.tried_again import LOOK_SECONDS, MAX_LOOKS_BETWEEN
from ottla.node.security.trust_file import TrustFile
from ottla.node.settings.oauthbearer_settings import OauthBearer
from ottla.node.settings.sasl_settings import ListenerSasl
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER

Verify = Callable[[str], VerifiedToken]
_MODULE: Final = "ottla.node.security.token_verifier"  # 10 MB, for those who need it

log = logging.getLogger(__name__)


class Verifier(NamedTuple):
    """The sides of a verifier: what any thread asks, and what keeps its keys fresh until it is ended.

    `refused` gives why a new file of authorities was not taken over, "" if it was.
    """

    verify: Verify
    run: Callable[[], Coroutine[Any, Any, None]]
    refused: Callable[[], str]


async def make_verifier(tokens: OauthBearer, now_ms: Callable[[], int]) -> Verifier:
    """Return a verifier by these settings; INVALID_CONFIG where the file of authorities cannot be used."""
    if sys.modules.get("cryptography", sys) is None:
        del sys.modules["cryptography"]  # `ottla start` hides it from libraries that need none of it
    await asyncio.to_thread(importlib.import_module, _MODULE)  # it takes longer than the loop has
    from ottla.node.security.token_verifier import TokenVerifier

    made = await TokenVerifier.make(tokens, now_ms=now_ms)
    return Verifier(made.verify, made.run, lambda: made.refused)


class TokenVerifiers:
    """The verifiers of all listeners; for the loop alone, what they verify for any thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._of: dict[str, Verifier] = {}
        self._under_way: dict[str, asyncio.Event] = {}  # set when the settings have changed

    def of(self, listener: str) -> Verify | None:
        """Return what verifies the tokens of clients of a listener; None where it is not there yet."""
        found = self._of.get(listener)
        return None if found is None else found.verify

    def refused(self) -> dict[str, str]:
        """Return why new authorities of a provider were refused, by the listener that keeps the old ones."""
        found = {name: one.refused() for name, one in self._of.items()}
        return {name: reason for name, reason in found.items() if reason}

    async def open(self, listener: str, tokens: OauthBearer) -> Verifier:
        """Make the verifier of a listener; it has no keys before it runs. INVALID_CONFIG as above."""
        verifier = self._of[listener] = await make_verifier(tokens, self._now_ms)
        return verifier

    async def check(self, listeners: Mapping[str, ListenerSasl]) -> None:
        """INVALID_CONFIG if one of these listeners could not take the tokens that it is to take."""
        for name, tokens in self._to_be_made(listeners):
            try:
                await TrustFile.open(tokens.truststore_location)
            except KafkaError as error:
                raise KafkaError(
                    error.code, f"The listener {name} cannot offer OAUTHBEARER: {error.detail}"
                ) from None

    def settings_changed(self, listeners: Mapping[str, ListenerSasl], start_task: StartTask) -> None:
        """Make the verifiers of listeners that take tokens from now on."""
        for name, tokens in self._to_be_made(listeners):
            if name in self._under_way:
                self._under_way[name].set()
                continue
            self._under_way[name] = asyncio.Event()
            start_task(self._begin(name, tokens))

    def _to_be_made(self, listeners: Mapping[str, ListenerSasl]) -> list[tuple[str, OauthBearer]]:
        """Return the listeners that take tokens and have no verifier, each with its settings."""
        found = ((name, one.mechanisms.get(OAUTHBEARER)) for name, one in listeners.items())
        return [
            (name, oauth.tokens)
            for name, oauth in found
            if oauth is not None and oauth.tokens is not None and name not in self._of
        ]

    async def _begin(self, listener: str, tokens: OauthBearer) -> None:
        changed, pause_s, said = self._under_way[listener], LOOK_SECONDS, ""
        try:
            while True:
                changed.clear()
                try:
                    verifier = await self.open(listener, tokens)
                    break
                except KafkaError as error:
                    if error.detail != said:
                        said = error.detail
                        log.error(
                            "The listener %s does not offer OAUTHBEARER: %s That is tried again.",
                            listener,
                            said,
                        )
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await changed.wait()
                pause_s = min(2 * pause_s, MAX_LOOKS_BETWEEN * LOOK_SECONDS)
        finally:
            del self._under_way[listener]
        log.info("The listener %s offers OAUTHBEARER from now on.", listener)
        await verifier.run()
