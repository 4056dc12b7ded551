"""Reloads the keys and certificates of listeners while the node runs.

Certificates are valid for weeks and nodes run for years. When the file of a store changes, or one of its
settings (AlterConfigs of `listener.name.NAME.ssl.*`), the store is read again, and new connections use it;
open connections keep the old one. The promise: an unusable certificate, or one with other names, is logged
and otherwise ignored. It is retried with growing pauses even if nothing changes (`retry_schedule`). As in
Kafka, a new certificate must have the distinguished name and all subject alternative names of the old one,
unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` allow other names.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.net.server_tls import DialTls, ListenerTls, ServerTls
from ottla.node.security.certificate_problems import OwnNode, problem_of, warning_of
from ottla.node.security.retry_schedule import LOOK_SECONDS, MAX_MINUTES_BETWEEN, RetrySchedule
from ottla.node.security.server_context import BuiltTls, OwnCertificate, build_tls
from ottla.node.settings.security_settings import ListenerSecurity
from ottla.node.tls.key_store import Stamp, stamps_of

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Listener:
    """The current TLS of a listener, and the settings and file stamps of the last attempt to reload it."""

    tls: ListenerTls
    certificate: OwnCertificate
    security: ListenerSecurity
    stamps: tuple[Stamp | None, ...]
    attempts: RetrySchedule = field(default_factory=RetrySchedule)


class SecurityReload:
    """The keys and certificates of all listeners of a node."""

    def __init__(
        self,
        wanted: Callable[[], Mapping[str, ListenerSecurity]],
        *,
        node: OwnNode | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`wanted` returns the current settings by listener; certificates should name the `node`."""
        self._wanted = wanted
        self._node = node
        self._now = now
        self._logged: dict[str, str] = {}  # listener -> the last logged problem of its certificate
        self._listeners: dict[str, _Listener] = {}
        self._changed = asyncio.Event()

    async def open(self, security: ListenerSecurity) -> ListenerTls:
        """Read the stores of a listener for the first time; INVALID_CONFIG if they cannot be used."""
        # The stamps are taken first, so that a file that changes during the read is read again.
        stamps = await asyncio.to_thread(_stamps_of, security)
        built = await asyncio.to_thread(build_tls, security)
        tls = ListenerTls(built.server)
        self._listeners[security.listener] = _Listener(
            tls=tls, certificate=built.certificate, security=security, stamps=stamps
        )
        self._log_problems()
        return tls

    def problems(self) -> list[str]:
        """Return the reasons why clients or nodes reject certificates of this node, a sentence each."""
        now = self._now()
        found = (
            problem_of(one.certificate, one.security, self._node, now) for one in self._listeners.values()
        )
        return [one for one in found if one is not None]

    def refused(self) -> dict[str, str]:
        """Return the reason for each rejected key or certificate, by the listener that keeps the old one."""
        found = {name: one.attempts.refused for name, one in self._listeners.items()}
        return {name: reason for name, reason in found.items() if reason}

    def listeners(self) -> list[str]:
        """Return the listeners that have keys and certificates."""
        return list(self._listeners)

    def _log_problems(self) -> None:
        """Log present and imminent problems of certificates, each when it begins and once a day."""
        now = self._now()
        for name, listener in self._listeners.items():
            problem = problem_of(listener.certificate, listener.security, self._node, now)
            warning = problem or warning_of(listener.certificate, listener.security, now)
            if warning is None:
                self._logged.pop(name, None)
            elif self._logged.get(name) != (dated := f"{now:%Y-%m-%d} {warning}"):
                self._logged[name] = dated
                log.log(logging.WARNING if problem is None else logging.ERROR, "%s", warning)

    def dialling(self, listener: str) -> DialTls:
        """Return the current TLS for dialling this listener on other nodes."""
        return self._dial_tls(listener, self._listeners[listener].tls.current.dialling)

    def linking(self, listener: str) -> DialTls:
        """Return the current TLS for dialling this listener on other voters. Thread-safe."""
        return self._dial_tls(listener, self._listeners[listener].tls.current.linking)

    def _dial_tls(self, listener: str, context: ssl.SSLContext | None) -> DialTls:
        security = self._listeners[listener].security
        assert context is not None, f"the listener {listener} has no truststore"
        return DialTls(context, security.checks_names, security.needs_node_id)

    def accepting(self, listener: str) -> ssl.SSLContext:
        """Return the current server context of a listener."""
        return self._listeners[listener].tls.current.context

    def current(self, listener: str) -> ServerTls:
        """Return the current TLS of a listener. Thread-safe."""
        return self._listeners[listener].tls.current

    def settings_changed(self) -> None:
        """Look for changes at once."""
        self._changed.set()

    async def run(self) -> None:
        """Look for changes until cancelled; return at once if no listener has TLS."""
        while self._listeners:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            await self.look()

    async def look(self) -> None:
        """Reload the stores whose files or settings have changed, and those whose retry is due."""
        wanted = self._wanted()
        for name, listener in self._listeners.items():
            security = wanted.get(name, listener.security)
            stamps = await asyncio.to_thread(_stamps_of, security)
            has_changed = security != listener.security or stamps != listener.stamps
            if not listener.attempts.is_due(has_changed=has_changed):
                continue
            listener.security, listener.stamps = security, stamps
            try:
                built = await self._built(listener, security)
            except KafkaError as error:
                _refuse(listener, error.detail)
                continue
            listener.attempts.succeeded()
            listener.tls.current, listener.certificate = built.server, built.certificate
            log.info("The listener %s has reloaded its keys and certificates.", name)
        self._log_problems()

    async def check(self, wanted: Mapping[str, ListenerSecurity]) -> None:
        """Raise INVALID_CONFIG if a listener could not apply these settings."""
        for name, listener in self._listeners.items():
            security = wanted.get(name, listener.security)
            if security != listener.security:
                await self._built(listener, security)

    async def _built(self, listener: _Listener, security: ListenerSecurity) -> BuiltTls:
        built = await asyncio.to_thread(build_tls, security)
        problem = _problem(listener.certificate, built.certificate, security) or self._new_problem(
            listener.certificate, built.certificate, security
        )
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
        return built

    def _new_problem(
        self, old: OwnCertificate, new: OwnCertificate, security: ListenerSecurity
    ) -> str | None:
        """Return the reason why others would reject the new certificate, or None if it is no worse."""
        now = self._now()
        if problem_of(old, security, self._node, now) is not None:
            return None
        return problem_of(new, security, self._node, now)


def _refuse(listener: _Listener, reason: str) -> None:
    """Record that the new certificate is rejected, and log the reason if it is a new one."""
    if listener.attempts.failed(reason):
        log.error(
            "The listener %s keeps its old certificate, because the new one is rejected: %s It is retried "
            "when a file changes, and otherwise after growing pauses of at most %.0f minutes.",
            listener.security.listener,
            reason,
            MAX_MINUTES_BETWEEN,
        )


def _problem(old: OwnCertificate, new: OwnCertificate, security: ListenerSecurity) -> str | None:
    """Return the reason why a certificate may not replace an old one, or None if it may."""
    if not security.allow_dn_changes and old.subject.lower() != new.subject.lower():
        return (
            f"the distinguished name of the certificate changes from {old.subject} to {new.subject}; "
            "set ssl.allow.dn.changes=true to allow that."
        )
    if not security.allow_san_changes and not new.alternative_names.issuperset(old.alternative_names):
        return (
            f"the certificate of {new.subject} lacks subject alternative names that the present one has; "
            "set ssl.allow.san.changes=true to allow that."
        )
    return None


def _stamps_of(security: ListenerSecurity) -> tuple[Stamp | None, ...]:
    return stamps_of((security.keystore, security.truststore))
