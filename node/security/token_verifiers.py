"""The verifiers of access tokens, one for each listener, made when the listener first takes any.

That may be while the node runs: the mechanisms of a listener may change (`sasl.enabled.mechanisms`). Until
the verifier is there OAUTHBEARER is not offered.
"""

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.node.security.access_token import VerifiedToken
from ottla.node.settings.oauthbearer_settings import OauthBearer
from ottla.node.settings.sasl_settings import ListenerSasl
from ottla.node.wire.sasl_mechanisms import OAUTHBEARER
from ottla.node.work.handing_over import StartTask

Verify = Callable[[str], VerifiedToken]
_MODULE: Final = "ottla.node.security.token_verifier"  # 10 MB, for those who need it

log = logging.getLogger(__name__)


class Verifier(NamedTuple):
    """The two sides of a verifier: what any thread asks, and what keeps its keys fresh until it is ended."""

    verify: Verify
    run: Callable[[], Coroutine[Any, Any, None]]


async def make_verifier(tokens: OauthBearer, now_ms: Callable[[], int]) -> Verifier:
    """Return a verifier by these settings; INVALID_CONFIG where the file of authorities cannot be used."""
    if sys.modules.get("cryptography", sys) is None:
        del sys.modules["cryptography"]  # `ottla start` hides it from libraries that need none of it
    await asyncio.to_thread(importlib.import_module, _MODULE)  # it takes longer than the loop has
    from ottla.node.security.token_verifier import TokenVerifier

    made = await TokenVerifier.make(tokens, now_ms=now_ms)
    return Verifier(made.verify, made.run)


class TokenVerifiers:
    """The verifiers of all listeners; for the loop alone, what they verify for any thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._of: dict[str, Verify] = {}
        self._under_way: set[str] = set()

    def of(self, listener: str) -> Verify | None:
        """Return what verifies the tokens of clients of a listener; None where it is not there yet."""
        return self._of.get(listener)

    async def open(self, listener: str, tokens: OauthBearer) -> Verifier:
        """Make the verifier of a listener; it has no keys before it runs. INVALID_CONFIG as above."""
        verifier = await make_verifier(tokens, self._now_ms)
        self._of[listener] = verifier.verify
        return verifier

    def settings_changed(self, listeners: Mapping[str, ListenerSasl], start_task: StartTask) -> None:
        """Make the verifiers of listeners that take tokens from now on."""
        for name, settings in listeners.items():
            oauth = settings.mechanisms.get(OAUTHBEARER)
            if oauth is None or oauth.tokens is None or name in self._of or name in self._under_way:
                continue
            self._under_way.add(name)
            start_task(self._begin(name, oauth.tokens))

    async def _begin(self, listener: str, tokens: OauthBearer) -> None:
        try:
            verifier = await self.open(listener, tokens)
        except KafkaError as error:
            log.error("The listener %s does not offer OAUTHBEARER: %s", listener, error.detail)
            return
        finally:
            self._under_way.discard(listener)
        log.info("The listener %s offers OAUTHBEARER from now on.", listener)
        await verifier.run()
