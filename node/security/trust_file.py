"""The authorities that the host of an OAuth provider is trusted by, reloaded when their file changes.

As with the keys of listeners, an unusable file is logged and retried, and the old authorities stay.
"""

import asyncio
import logging
import ssl

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.security.retry_schedule import LOOK_SECONDS, MAX_MINUTES_BETWEEN, RetrySchedule
from ottla.node.settings.oauthbearer_settings import TRUSTSTORE_LOCATION
from ottla.node.tls.key_store import Stamp, read_authorities, stamps_of
from ottla.node.tls.pem_store import certificates_in, reason_of
from ottla.node.tls.store_settings import PEM, StoreSettings

log = logging.getLogger(__name__)


class TrustFile:
    """The TLS context for connections to a provider, in `context`; without a path it trusts the system's."""

    @classmethod
    async def open(cls, path: str | None) -> "TrustFile":
        """Read the authorities for the first time; INVALID_CONFIG if they cannot be used."""
        if path is None:
            return cls(None, await asyncio.to_thread(ssl.create_default_context), None)
        # The stamp is taken first, so that a file that changes during the read is read again.
        stamp = await asyncio.to_thread(_stamp_of, path)
        return cls(path, await asyncio.to_thread(read_trust, path), stamp)

    def __init__(self, path: str | None, context: ssl.SSLContext, stamp: Stamp | None) -> None:
        self.context = context
        self._path = path
        self._stamp = stamp
        self._attempts = RetrySchedule()

    @property
    def refused(self) -> str:
        """The reason why the present file was rejected, or ""."""
        return self._attempts.refused

    async def follow(self) -> None:
        """Reload the file when it changes, until cancelled; return at once without a file."""
        while self._path is not None:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> bool:
        """Reload the file if it has changed or a retry is due; return True if that succeeded."""
        if self._path is None:
            return False
        stamp = await asyncio.to_thread(_stamp_of, self._path)
        if not self._attempts.is_due(has_changed=stamp != self._stamp):
            return False
        self._stamp = stamp
        try:
            self.context = await asyncio.to_thread(read_trust, self._path)
        except KafkaError as error:
            if self._attempts.failed(error.detail):
                log.error(
                    "%s The OAuth provider is still trusted by the old authorities. The file is retried when "
                    "it changes, and otherwise after growing pauses of at most %.0f minutes.",
                    error.detail,
                    MAX_MINUTES_BETWEEN,
                )
            return False
        self._attempts.succeeded()
        log.info("The authorities in %s, by which an OAuth provider is trusted, were reloaded.", self._path)
        return True


def _store(path: str) -> StoreSettings:
    return StoreSettings(type=PEM, location=path, password=None)


def _stamp_of(path: str) -> Stamp | None:
    return stamps_of([_store(path)])[0]


def read_trust(path: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a file; INVALID_CONFIG if they are unusable. Blocks."""
    try:
        pem = b"\n".join(certificates_in(read_authorities(_store(path)).pem, path))
        return ssl.create_default_context(cadata=pem.decode("ascii", "replace"))
    except KafkaError as error:
        reason = error.detail.rpartition("cannot be used: ")[2].rstrip(".")
    except (OSError, ValueError) as error:
        reason = reason_of(error)
    raise KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"The authorities in {path} ({TRUSTSTORE_LOCATION}) cannot be used: {reason}.",
    )
