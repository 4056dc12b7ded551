"""The verifiers of access tokens, one for each listener, made when the listener first accepts tokens.

That can happen while the node runs, since `sasl.enabled.mechanisms` of a listener can be changed. Until its
verifier exists, the listener does not offer OAUTHBEARER. A change that this node cannot apply is rejected; if
it was accepted before, such as in an earlier run, it is retried until it can be applied.
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
from ottla.node.security.retry_schedule import LOOK_SECONDS, MAX_LOOKS_BETWEEN
from ottla.node.security.trust_file import TrustFile
from ottla.node.settings.oauthbearer_settings import OauthBearer
from ottla.node.settings.sasl_settings import ListenerSasl
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER

Verify = Callable[[str], VerifiedToken]
_MODULE: Final = "ottla.node.security.token_verifier"  # 10 MB, so loaded on demand

log = logging.getLogger(__name__)


class Verifier(NamedTuple):
    """The functions of a verifier: `verify` is thread-safe, `run` refreshes its keys until it is cancelled.

    `refused` returns the reason why a changed truststore file was rejected, or "".
    """

    verify: Verify
    run: Callable[[], Coroutine[Any, Any, None]]
    refused: Callable[[], str]


async def make_verifier(tokens: OauthBearer, now_ms: Callable[[], int]) -> Verifier:
    """Return a verifier for these settings; INVALID_CONFIG if the truststore file cannot be used."""
    if sys.modules.get("cryptography", sys) is None:
        del sys.modules["cryptography"]  # `ottla start` hides it from libraries that do not need it
    await asyncio.to_thread(importlib.import_module, _MODULE)  # too slow for the loop
    from ottla.node.security.token_verifier import TokenVerifier

    made = await TokenVerifier.make(tokens, now_ms=now_ms)
    return Verifier(made.verify, made.run, lambda: made.refused)


class TokenVerifiers:
    """The verifiers of all listeners. Methods are for the loop only; functions from `of` are thread-safe."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._of: dict[str, Verifier] = {}
        self._under_way: dict[str, asyncio.Event] = {}  # set when the settings change

    def of(self, listener: str) -> Verify | None:
        """Return the function that verifies tokens for a listener, or None before its verifier exists."""
        found = self._of.get(listener)
        return None if found is None else found.verify

    def refused(self) -> dict[str, str]:
        """Return the reason for each rejected truststore file, by the listener that keeps the old one."""
        found = {name: one.refused() for name, one in self._of.items()}
        return {name: reason for name, reason in found.items() if reason}

    async def open(self, listener: str, tokens: OauthBearer) -> Verifier:
        """Make the verifier of a listener, which has no keys before it runs.

        INVALID_CONFIG if the truststore file cannot be used.
        """
        verifier = self._of[listener] = await make_verifier(tokens, self._now_ms)
        return verifier

    async def check(self, listeners: Mapping[str, ListenerSasl]) -> None:
        """Raise INVALID_CONFIG if the verifier that one of these listeners needs could not be made."""
        for name, tokens in self._to_be_made(listeners):
            try:
                await TrustFile.open(tokens.truststore_location)
            except KafkaError as error:
                raise KafkaError(
                    error.code, f"The listener {name} cannot offer OAUTHBEARER: {error.detail}"
                ) from None

    def settings_changed(self, listeners: Mapping[str, ListenerSasl], start_task: StartTask) -> None:
        """Start a task to make and run the verifier of each listener that accepts tokens and has none."""
        for name, tokens in self._to_be_made(listeners):
            if name in self._under_way:
                self._under_way[name].set()
                continue
            self._under_way[name] = asyncio.Event()
            start_task(self._begin(name, tokens))

    def _to_be_made(self, listeners: Mapping[str, ListenerSasl]) -> list[tuple[str, OauthBearer]]:
        """Return the listeners that accept tokens but have no verifier, with their settings."""
        found = ((name, one.mechanisms.get(OAUTHBEARER)) for name, one in listeners.items())
        return [
            (name, oauth.tokens)
            for name, oauth in found
            if oauth is not None and oauth.tokens is not None and name not in self._of
        ]

    async def _begin(self, listener: str, tokens: OauthBearer) -> None:
        changed, pause_s, message = self._under_way[listener], LOOK_SECONDS, ""
        try:
            while True:
                changed.clear()
                try:
                    verifier = await self.open(listener, tokens)
                    break
                except KafkaError as error:
                    if error.detail != message:
                        message = error.detail
                        log.error(
                            "The listener %s does not offer OAUTHBEARER: %s This is retried.",
                            listener,
                            message,
                        )
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await changed.wait()
                pause_s = min(2 * pause_s, MAX_LOOKS_BETWEEN * LOOK_SECONDS)
        finally:
            del self._under_way[listener]
        log.info("The listener %s now offers OAUTHBEARER.", listener)
        await verifier.run()
