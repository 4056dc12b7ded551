"""Authentication of requests by a password, a token, a certificate or a session.

Passwords are those of the cluster's SCRAM users; two threads check passwords and tokens. Failures are counted
per address together with failed logins over the Kafka protocol, which delays their answers, and per user and
address. No part of a password or a token is logged, stored or sent back.
"""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from aiohttp import hdrs, web

from ottla.logstore.words.errors import kept
from ottla.metadata_raft.image import ScramCredential, ScramKey
from ottla.metadata_raft.scram import ScramMechanism
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.counters.rest_work import RestWork
from ottla.node.net.client_lines import ClientLines
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.server_tls import ServerTls
from ottla.node.node_facts import NodeFacts
from ottla.node.rest_api.fair_slots import BY_ADDRESS, BY_NODE
from ottla.node.rest_api.known_passwords import KnownPasswords
from ottla.node.rest_api.login_waits import MAX_USER_CHARS, LoginWaits
from ottla.node.rest_api.rest_error import (
    AUTHENTICATION_FAILED,
    AUTHORIZATION_FAILED,
    BROKER_NOT_AVAILABLE,
    TOO_MANY_REQUESTS,
    RestError,
    bad_request,
)
from ottla.node.rest_api.sessions import Session, Sessions
from ottla.node.security.access_token import JwtError, VerifiedToken
from ottla.node.security.sasl.plain import PlainCredentials, check_stored_password
from ottla.node.security.sasl.sasl_error import SaslError
from ottla.node.settings.rest_security_settings import BASIC, BEARER, CERTIFICATE, RestLogins

REFUSED_RETRY_S: Final = 10
BY_USER: Final = "user"  # and by address
REALM: Final = "Ottla"
# Browsers prompt for a password if they know the scheme; the console has a login page instead.
SESSION_CHALLENGE: Final = f'Session realm="{REALM}"'
_CHALLENGES: Final = {BASIC: f'Basic realm="{REALM}", charset="UTF-8"', BEARER: f'Bearer realm="{REALM}"'}

T = TypeVar("T")
log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """The principal of a caller with its proof: a session, a password, a token, or else a certificate."""

    principal: str
    session: Session | None = None
    user: str = ""  # set if a password was the proof
    credential: ScramCredential | None = None  # that the password was checked against
    ends_s: float | None = None  # when a token expires, by the clock of sessions


ANONYMOUS_IDENTITY: Final = Identity(ANONYMOUS)


class Connected(Protocol):
    """The facts about the client's end of a connection."""

    tls: ServerTls | None
    principal: str | None  # of its certificate, once that was examined
    logged_in: str | None  # the principal of the last login over it
    proven_user: str  # the user whose correct password was last sent over it

    def certificate(self) -> bytes | None:
        """Return the client's certificate (DER), or None if it sent none."""
        ...


class WrongLogin(Exception):
    """A password or a token that is not valid."""


class RestAuthentication:
    """Authenticates requests on the loop of the REST API."""

    def __init__(self, facts: NodeFacts, logins: RestLogins) -> None:
        self.methods = logins.methods
        self._facts = facts
        unique = facts.unique
        self.sessions = Sessions(
            unique, idle_s=logins.session_idle_ms / 1000, max_s=logins.session_max_ms / 1000
        )
        self._known = KnownPasswords(unique(32))
        self._lines = ClientLines(log)
        self._waits = LoginWaits(unique(32))
        # Passwords for one user from one address are checked one at a time.
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._rejected = dict.fromkeys((BY_ADDRESS, BY_USER, BY_NODE), 0)
        self._executor = HandshakeExecutor(name="rest-logins")

    @property
    def reading(self) -> RestWork:
        """The logins that wait for a thread, and the numbers of those rejected unchecked; for any thread."""
        return RestWork("logins", self._executor.running, self._executor.waiting, dict(self._rejected))

    def close(self) -> None:
        """Stop the threads."""
        self._executor.close()

    async def identity_of(self, request: web.Request, connection: Connected, address: str) -> Identity:
        """Return the caller; RestError 401 if it has no valid proof, 429 if its login is not checked now.

        RestError 400 for a repeated header, 403 for a certificate to which no rule gives a principal, and 503
        while the node starts.
        """
        if not self.methods:
            return ANONYMOUS_IDENTITY
        given = request.headers.getall(hdrs.AUTHORIZATION, [])
        if len(given) > 1:
            raise bad_request("The header Authorization is given more than once.")
        if given:
            scheme, _, proof = given[0].partition(" ")
            try:
                proven = await self._proven(scheme.lower(), proof.strip(), address, connection)
            except WrongLogin:
                self._facts.logins.failed += 1
                raise self.refusal(request.headers) from None
            self._count_login(connection, proven.principal)
            return proven
        found = await self.cached_identity(request, connection)
        if found is ANONYMOUS_IDENTITY:
            raise self.refusal(request.headers)
        return found

    def _count_login(self, connection: Connected, principal: str) -> None:
        """Count the login of a principal once per connection; its password comes with each request."""
        if connection.logged_in != principal:
            connection.logged_in = principal
            self._facts.logins.successful += 1

    async def _proven(self, scheme: str, proof: str, address: str, connection: Connected) -> Identity:
        """Return the caller that the header Authorization proves."""
        if scheme == BASIC and BASIC in self.methods:
            user, password = _user_and_password(proof)
            credential = self._shown_before(user, password, connection)
            if credential is None:
                credential = await self.check_password(user, password, address)
                connection.proven_user = user
            return Identity(f"User:{user}", user=user, credential=credential)
        if scheme == BEARER and BEARER in self.methods:
            token = await self.check_token(proof, address)
            return Identity(f"User:{token.principal}", ends_s=self.end_of(token))
        raise WrongLogin

    def _shown_before(self, user: str, password: str, connection: Connected) -> ScramCredential | None:
        """Return the credential of a user whose correct password is sent again over a connection.

        This never waits, so wrong passwords from its address do not lock out a client that is logged in.
        """
        credential = self._credential(user) if user == connection.proven_user else None
        is_right = credential is not None and self._known.is_right(user, password, credential)
        return credential if is_right else None

    async def cached_identity(self, request: web.Request, connection: Connected) -> Identity:
        """Return the caller by its session or certificate, or `ANONYMOUS_IDENTITY`."""
        session = self._session_of(request.cookies.get(self.cookie_name(connection.tls is not None), ""))
        if session is not None:
            return Identity(session.principal, session)
        if CERTIFICATE not in self.methods or connection.tls is None:
            return ANONYMOUS_IDENTITY
        certificate, tls = connection.certificate(), connection.tls
        if certificate is None:
            return ANONYMOUS_IDENTITY
        if connection.principal is None:
            try:
                connection.principal = await asyncio.to_thread(tls.principal_of, certificate)
            except PermissionError:
                self._facts.logins.failed += 1
                raise RestError(
                    403,
                    AUTHORIZATION_FAILED,
                    "No rule of ssl.principal.mapping.rules applies to the certificate of this client.",
                ) from None
        self._count_login(connection, connection.principal)
        return Identity(connection.principal)

    def cookie_name(self, has_tls: bool) -> str:
        """Return the name of the cookie with the session id.

        Nodes on one host share cookies, so the name has the node id; browsers accept the prefix over https
        alone.
        """
        return f"{'__Host-' if has_tls else ''}ottla-session-{self._facts.node_id}"

    def _session_of(self, session_id: str) -> Session | None:
        session = self.sessions.find(session_id, self.now_s()) if session_id else None
        if session is None or not session.user:
            return session
        if session.credential == self._credential(session.user):
            return session
        self.sessions.end(session)
        return None

    def still_holds(self, identity: Identity) -> bool:
        """Return True if the proof of a caller is still valid.

        Calling it counts as a use of the session, as another request does.
        """
        session = identity.session
        if session is not None and not self.sessions.use(session, self.now_s()):
            return False
        user, credential = (
            (identity.user, identity.credential) if session is None else (session.user, session.credential)
        )
        if user and credential != self._credential(user):
            return False
        return identity.ends_s is None or self.now_s() < identity.ends_s

    # ---- proofs --------------------------------------------------------------------------------------

    async def check_password(self, user: str, password: str, address: str) -> ScramCredential:
        """Return the credential of a user whose password is correct; WrongLogin, after a delay, if it is not.

        RestError 429 if logins from this address or for this user have to wait, or too many are waiting.
        """
        self._check_failed_logins(address)
        turn = self._turns.setdefault((user[:MAX_USER_CHARS], address), asyncio.Lock())
        async with turn:  # else as many could be tried at once as there are connections
            found = await self._verify_password(user, password, address)
        if found is None:
            await self._failed(address)
            raise WrongLogin
        return found

    async def _verify_password(self, user: str, password: str, address: str) -> ScramCredential | None:
        """Return the credential of a user, None if the password is wrong; RestError 429 as above."""
        wait_s = self._waits.wait_s(user, address, self.now_s())
        if wait_s > 0:
            self._rejected[BY_USER] += 1
            if self._waits.waits_for_unknown_addresses(user, address, self.now_s()):
                # A single text for all addresses, since the log counts lines that recur.
                message = (
                    "Passwords for user %s are guessed from many addresses: logins from new addresses wait."
                )
                self._lines.log(logging.WARNING, address, message, user[:MAX_USER_CHARS])
            raise RestError(
                429,
                TOO_MANY_REQUESTS,
                "Too many wrong passwords were given for this user; try again later.",
                retry_after_s=int(wait_s) + 1,
            )
        credential = self._credential(user)
        if credential is not None and self._known.is_right(user, password, credential):
            self._waits.succeeded(user, address)
            return credential
        self._waits.begun(user, address, self.now_s())
        given = PlainCredentials(user, password)
        try:
            found = await self._in_thread(
                address,
                lambda: check_stored_password(
                    given, self._credential_of, self._facts.false_credentials.of_password
                ),
            )
        except SaslError as error:
            self._waits.failed(user, address, self.now_s())
            self._facts.log_failed_login(user[:MAX_USER_CHARS], address, BASIC.upper(), str(error))
            return None
        except RestError:  # no thread has checked it
            self._waits.release(user, address)
            raise
        self._waits.succeeded(user, address)
        self._known.add(user, password, found)
        return found

    async def check_token(self, token: str, address: str) -> VerifiedToken:
        """Return the verified content of a token; WrongLogin, after a delay, if it is not accepted.

        RestError 429 if logins from this address have to wait, or too many logins are waiting.
        """
        verify = self._facts.verify_token
        assert verify is not None, "bearer is one of the ways to log in"
        self._check_failed_logins(address)
        try:
            return await self._in_thread(address, lambda: verify(token))
        except JwtError as error:
            self._facts.log_failed_login("", address, BEARER.upper(), str(error))
            await self._failed(address)
            raise WrongLogin from None

    def _check_failed_logins(self, address: str) -> None:
        if self._facts.failed_logins.is_refused(address, self.now_s()):
            self._rejected[BY_ADDRESS] += 1
            raise RestError(
                429,
                TOO_MANY_REQUESTS,
                "Too many logins from this address have failed; try again later.",
                retry_after_s=REFUSED_RETRY_S,
            )

    async def _failed(self, address: str) -> None:
        delay_s = self._facts.failed_logins.note(address, self.now_s())
        await asyncio.sleep(max(delay_s, self._facts.failed_login_delay_s))

    def _credential(self, user: str) -> ScramCredential | None:
        """Return the credential to check a password against: the stronger one if there are two."""
        strong = self._credential_of(user, ScramMechanism.SCRAM_SHA_512)
        return strong or self._credential_of(user, ScramMechanism.SCRAM_SHA_256)

    def _credential_of(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        if not self._facts.has_started:
            raise RestError(
                503, BROKER_NOT_AVAILABLE, "This node is still starting; /readyz shows its progress."
            )
        return self._facts.services.metadata.image.scram_credentials.get(ScramKey(user, mechanism))

    async def _in_thread(self, address: str, work: Callable[[], T]) -> T:
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def settle(outcome: object) -> None:
            if not done.done():
                done.set_result(outcome)

        def carry_out() -> object:
            try:
                return work()
            except Exception as error:  # raised again by the coroutine that waits
                return kept(error)

        def refuse() -> None:
            self._rejected[BY_NODE] += 1
            settle(
                RestError(
                    429, TOO_MANY_REQUESTS, "Too many logins are waiting; try again later.", retry_after_s=1
                )
            )

        self._executor.submit(address, carry_out, settle, refuse)
        outcome = await done
        if isinstance(outcome, Exception):
            raise outcome
        return cast(T, outcome)

    def now_s(self) -> float:
        """Return the time of the clock that sessions and waits use."""
        return asyncio.get_running_loop().time()

    def end_of(self, token: VerifiedToken) -> float:
        """Return the time at which a token expires, by the clock of sessions."""
        return self.now_s() + token.expires_ms / 1000 - time.time()

    # ---- refusals ------------------------------------------------------------------------------------

    def refusal(self, headers: Mapping[str, str]) -> RestError:
        """Return the error for a client without a valid proof, with the ways to log in."""
        is_page = headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        challenges = [_CHALLENGES[one] for one in self.methods if one in _CHALLENGES and is_page]
        return RestError(
            401,
            AUTHENTICATION_FAILED,
            "This request needs a login, and it has none that is valid.",
            headers={hdrs.WWW_AUTHENTICATE: ", ".join(challenges) or SESSION_CHALLENGE},
        )


def _user_and_password(proof: str) -> tuple[str, str]:
    """Return the user and the password of a Basic header; WrongLogin if it is malformed."""
    try:
        text = base64.b64decode(proof, validate=True).decode()
    except (binascii.Error, ValueError):
        raise WrongLogin from None
    user, separator, password = text.partition(":")
    if not (separator and user and password):
        raise WrongLogin
    return user, password
