"""Finds the caller of a request: by a password, a token, a certificate or a session.

Passwords are those of the SCRAM users of the cluster; they and tokens are checked in two threads. Failures
count by address together with those of Kafka's clients, which holds their answers up, and by user and
address. Nothing of a password or a token is logged, kept or answered.
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
from ottla.node.net.handshake_lane import HandshakeLane
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
BY_USER: Final = "user"  # and address
REALM: Final = "Ottla"
# Browsers ask for a password by themselves where they know the scheme; the console has a page for that.
SESSION_CHALLENGE: Final = f'Session realm="{REALM}"'
_CHALLENGES: Final = {BASIC: f'Basic realm="{REALM}", charset="UTF-8"', BEARER: f'Bearer realm="{REALM}"'}

T = TypeVar("T")
log = logging.getLogger(__name__)


class Identity(NamedTuple):
    """The caller, and that by which it is known: a session, a password, a token; else a certificate."""

    principal: str
    session: Session | None = None
    user: str = ""  # whose password was right
    credential: ScramCredential | None = None  # by which it was
    ends_s: float | None = None  # of a token, by the clock of sessions


NOBODY: Final = Identity(ANONYMOUS)


class Connected(Protocol):
    """The facts about the other end of a connection."""

    tls: ServerTls | None
    principal: str | None  # that of its certificate, once that was looked at
    logged_in: str | None  # who has last logged in over it
    proven_user: str  # whose right password was shown over it last

    def certificate(self) -> bytes | None:
        """Return the certificate that the client has shown (DER), None without one."""
        ...


class WrongLogin(Exception):
    """A password or a token that is not right."""


class RestAuthentication:
    """Judges requests on the loop of the REST API."""

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
        # Of those who give a password: one of a user and an address is judged at a time.
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._rejected = dict.fromkeys((BY_ADDRESS, BY_USER, BY_NODE), 0)
        self._lane = HandshakeLane(name="rest-logins")

    @property
    def reading(self) -> RestWork:
        """The logins that wait for a thread, and those that were not looked at; for any thread."""
        return RestWork("logins", self._lane.running, self._lane.waiting, dict(self._rejected))

    def close(self) -> None:
        """Let go of the threads."""
        self._lane.close()

    async def identity_of(self, request: web.Request, connection: Connected, address: str) -> Identity:
        """Return who asks; RestError 401 if that is not proven, 429 if it is not looked at now."""
        if not self.methods:
            return NOBODY
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
        found = await self.identity_without_asking(request, connection)
        if found is NOBODY:
            raise self.refusal(request.headers)
        return found

    def _count_login(self, connection: Connected, principal: str) -> None:
        """Count who logs in over a connection, once: a client shows its password with each request."""
        if connection.logged_in != principal:
            connection.logged_in = principal
            self._facts.logins.successful += 1

    async def _proven(self, scheme: str, proof: str, address: str, connection: Connected) -> Identity:
        """Return whom the header Authorization proves."""
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
        """Return the credential of a user whose right password is shown once more over a connection.

        It waits for nothing: wrong passwords of others from its address do not lock out who is connected.
        """
        credential = self._credential(user) if user == connection.proven_user else None
        is_right = credential is not None and self._known.is_right(user, password, credential)
        return credential if is_right else None

    async def identity_without_asking(self, request: web.Request, connection: Connected) -> Identity:
        """Return who asks by a session or a certificate, and `NOBODY` for others."""
        session = self._session_of(request.cookies.get(self.cookie_name(connection.tls is not None), ""))
        if session is not None:
            return Identity(session.principal, session)
        if CERTIFICATE not in self.methods or connection.tls is None:
            return NOBODY
        certificate, tls = connection.certificate(), connection.tls
        if certificate is None:
            return NOBODY
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
        """Return under what name a browser keeps the id of a session.

        Nodes of one host share cookies, so the node is named; browsers take the prefix from https alone.
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
        """Return whether that by which a caller was known is valid now.

        What goes on for a session is a use of it, as further requests are.
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
        """Return the credential of a user whose password is right; WrongLogin, after a while, if it is not.

        RestError 429 where logins from this address, or for this user, have to wait.
        """
        self._check_turn(address)
        turn = self._turns.setdefault((user[:MAX_USER_CHARS], address), asyncio.Lock())
        async with turn:  # or as many could be tried at once as there are connections
            found = await self._judge_password(user, password, address)
        if found is None:
            await self._failed(address)
            raise WrongLogin
        return found

    async def _judge_password(self, user: str, password: str, address: str) -> ScramCredential | None:
        """Return the credential of a user, None if the password is wrong; RestError 429 as above."""
        wait_s = self._waits.wait_s(user, address, self.now_s())
        if wait_s > 0:
            self._rejected[BY_USER] += 1
            if self._waits.waits_for_strangers(user, address, self.now_s()):
                # One line for all addresses, since the log counts lines that come again.
                said = (
                    "Passwords for user %s are guessed from many addresses: logins from new addresses wait."
                )
                self._lines.tell(logging.WARNING, address, said, user[:MAX_USER_CHARS])
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
            self._facts.tell_failed_login(user[:MAX_USER_CHARS], address, BASIC.upper(), str(error))
            return None
        except RestError:  # no thread has looked at it
            self._waits.unjudged(user, address)
            raise
        self._waits.succeeded(user, address)
        self._known.add(user, password, found)
        return found

    async def check_token(self, token: str, address: str) -> VerifiedToken:
        """Return what a token says; WrongLogin, after a while, if it is not accepted."""
        verify = self._facts.verify_token
        assert verify is not None, "bearer is one of the ways to log in"
        self._check_turn(address)
        try:
            return await self._in_thread(address, lambda: verify(token))
        except JwtError as error:
            self._facts.tell_failed_login("", address, BEARER.upper(), str(error))
            await self._failed(address)
            raise WrongLogin from None

    def _check_turn(self, address: str) -> None:
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
        """Return by which credential a password is checked: the stronger one, if there are two."""
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
            except Exception as error:  # it is raised where it is waited for
                return kept(error)

        def refuse() -> None:
            self._rejected[BY_NODE] += 1
            settle(
                RestError(
                    429, TOO_MANY_REQUESTS, "Too many logins are waiting; try again later.", retry_after_s=1
                )
            )

        self._lane.submit(address, carry_out, settle, refuse)
        outcome = await done
        if isinstance(outcome, Exception):
            raise outcome
        return cast(T, outcome)

    def now_s(self) -> float:
        """Return the time by the clock of sessions and waits."""
        return asyncio.get_running_loop().time()

    def end_of(self, token: VerifiedToken) -> float:
        """Return when a token ends, by the clock of sessions."""
        return self.now_s() + token.expires_ms / 1000 - time.time()

    # ---- refusals ------------------------------------------------------------------------------------

    def refusal(self, headers: Mapping[str, str]) -> RestError:
        """Return the error for a client that has not proven who it is, with the ways to do so."""
        is_page = headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        challenges = [_CHALLENGES[one] for one in self.methods if one in _CHALLENGES and is_page]
        return RestError(
            401,
            AUTHENTICATION_FAILED,
            "This request needs a login, and it has none that is valid.",
            headers={hdrs.WWW_AUTHENTICATE: ", ".join(challenges) or SESSION_CHALLENGE},
        )


def _user_and_password(proof: str) -> tuple[str, str]:
    """Return what a Basic header says; WrongLogin if it says nothing."""
    try:
        text = base64.b64decode(proof, validate=True).decode()
    except (binascii.Error, ValueError):
        raise WrongLogin from None
    user, separator, password = text.partition(":")
    if not (separator and user and password):
        raise WrongLogin
    return user, password
