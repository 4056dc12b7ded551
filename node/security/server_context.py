"""Builds the TLS contexts of a listener from its settings. It blocks, so the loop calls none of it.

Each server context has completed a handshake with a client in memory before it is returned, so a key that
does not fit the allowed cipher suites or versions is detected when it is loaded, not by the first client.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.peer_certificate import named_by_common_name
from ottla.metadata_raft.raft_handshake import LINK_PROTOCOL
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.net.server_tls import ServerTls
from ottla.node.security.distinguished_name import (
    alternative_names,
    host_names,
    subject_name,
    validity,
    weakness,
)
from ottla.node.security.principal_rules import NoRuleError, PrincipalRules
from ottla.node.settings.security_settings import NONE, REQUIRED, ListenerSecurity
from ottla.node.tls.cipher_suites import allows_tls_1_2, allows_tls_1_3, openssl_suites, suites_problem
from ottla.node.tls.key_store import Authorities, read_authorities, read_key_pair
from ottla.node.tls.pem_store import KeyPair, load_authorities, reason_of, unusable
from ottla.node.tls.store_settings import TLS_1_2, TLS_1_3

_HANDSHAKE_ROUNDS: Final = 10  # TLS 1.2 takes 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificate:
    """The names of a listener's certificate, its validity, and its weakness.

    Its successor must have these names, unless settings allow others (`security_reload`).
    """

    subject: str
    alternative_names: frozenset[bytes]
    host_names: frozenset[str]
    valid_since: datetime
    valid_until: datetime
    weakness: str = ""  # of its key or signature, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTls:
    """The TLS of a listener, and facts about the certificate that it presents."""

    server: ServerTls
    certificate: OwnCertificate


def build_tls(security: ListenerSecurity) -> BuiltTls:
    """Read the stores of a listener; INVALID_CONFIG, with the file or setting, if one cannot be used."""
    rules = PrincipalRules(security.principal_mapping_rules)
    pair = read_key_pair(security.keystore, _owner(security))
    context = _context(security)
    pair.load_into(context)
    _check_handshake(context, pair)
    authorities = _authorities(security)
    if authorities is not None:
        load_authorities(context, authorities.pem, authorities.source)
    # Without logins, other nodes prove their identity by a certificate even if clients need none. With logins
    # they are not asked for one, since many authorities now sign certificates for servers only.
    if security.client_auth != NONE or (security.is_between_nodes and not security.has_logins):
        is_required = security.client_auth == REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    dialling: ssl.SSLContext | None = None
    linking: ssl.SSLContext | None = None
    if authorities is not None:
        dialling = _dialling_context(security, context, pair, authorities)
        linking = _dialling_context(security, context, pair, authorities)
        linking.set_alpn_protocols([LINK_PROTOCOL])
    names_clients = security.client_auth != NONE

    def principal(certificate: bytes | None) -> str:
        return principal_of(certificate if names_clients else None, rules)

    server = ServerTls(context, principal, dialling, linking)
    return BuiltTls(server=server, certificate=_own_certificate(pair))


def _dialling_context(
    security: ListenerSecurity, server: ssl.SSLContext, pair: KeyPair, authorities: Authorities
) -> ssl.SSLContext:
    """Return the client context for connections to this listener of other nodes.

    It does not check the names in the certificate of the other node. The caller does, since one of them may
    be a node id.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.minimum_version, client.maximum_version = server.minimum_version, server.maximum_version
    if server.minimum_version is ssl.TLSVersion.TLSv1_2 and (names := openssl_suites(security.cipher_suites)):
        client.set_ciphers(names)
    client.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    pair.load_into(client)
    load_authorities(client, authorities.pem, authorities.source)
    return client


def principal_of(certificate: bytes | None, rules: PrincipalRules) -> str:
    """Return the principal of a client, by its certificate (DER) if any; PermissionError if no rule fits."""
    if certificate is None:
        return ANONYMOUS
    try:
        return f"User:{rules.name_of(subject_name(certificate))}"
    except (NoRuleError, ValueError) as error:
        raise PermissionError(str(error)) from None


def _owner(security: ListenerSecurity) -> str:
    return f"of the listener {security.listener}"


def _authorities(security: ListenerSecurity) -> Authorities | None:
    """Return the certificates that a listener trusts, or None if it has no truststore."""
    store = security.truststore
    return None if store is None else read_authorities(store, _owner(security))


def _own_certificate(pair: KeyPair) -> OwnCertificate:
    try:
        certificate = pair.certificate
        since, until = validity(certificate)
        return OwnCertificate(
            subject=subject_name(certificate),
            alternative_names=alternative_names(certificate),
            host_names=host_names(certificate, of_common_name=named_by_common_name),
            valid_since=since,
            valid_until=until,
            weakness=weakness(certificate),
        )
    except ValueError as error:
        raise unusable(pair.source, str(error)) from None


def _context(security: ListenerSecurity) -> ssl.SSLContext:
    suites = security.cipher_suites
    problem = suites_problem(suites)
    with_1_2 = TLS_1_2 in security.enabled_protocols and allows_tls_1_2(suites)
    with_1_3 = TLS_1_3 in security.enabled_protocols and allows_tls_1_3(suites)
    if problem is None and not (with_1_2 or with_1_3):
        problem = "none of these suites belongs to a TLS version in ssl.enabled.protocols."
    if problem is not None:
        raise _invalid_suites(security, problem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if with_1_2 else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if with_1_3 else ssl.TLSVersion.TLSv1_2
    if with_1_2 and (names := openssl_suites(suites)):
        try:
            context.set_ciphers(names)
        except ssl.SSLError:
            raise _invalid_suites(security, "the OpenSSL of this system has none of these suites.") from None
    # A client that never reads leaves session tickets unread, and closing its socket then sends a reset.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # As in Java, a truststore may contain any certificate, not only self-signed authorities.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _check_handshake(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Do a handshake in memory with a client that verifies nothing; INVALID_CONFIG if it fails."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    client_context.set_ciphers("ALL")
    refusal = _handshake_refusal(client_context, context)
    if refusal:
        raise unusable(pair.source, refusal)


def own_refusal(built: BuiltTls) -> str:
    """Return the reason why this node would reject its own certificate from another node, or "".

    It is "" too if the listener has no truststore.
    """
    dialling = built.server.dialling
    return "" if dialling is None else _handshake_refusal(dialling, built.server.context)


def _handshake_refusal(client_context: ssl.SSLContext, context: ssl.SSLContext) -> str:
    """Return the reason why a handshake in memory fails, as the end of a sentence, or ""."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [
        client_context.wrap_bio(to_client, to_server),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_HANDSHAKE_ROUNDS):
            waiting = [one for one in waiting if not _completes_handshake(one)]
            if not waiting:
                return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message.rstrip(".")
    except ssl.SSLError as error:
        return f"a handshake with it fails: {reason_of(error)}"
    return "a handshake with it does not complete"


def _completes_handshake(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _invalid_suites(security: ListenerSecurity, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"Invalid configuration ssl.cipher.suites of the listener {security.listener}: {problem}",
    )
