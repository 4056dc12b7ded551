"""Judges certificates, files with secrets, open listeners, users and ACLs. Pure: the time is an argument."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from ottla.metadata_raft.peer_certificate import is_named
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.doctor.endpoint_facts import EndpointFacts, Speaks
from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.security.certificate_problems import SOON
from ottla.node.security.distinguished_name import host_names, validity, weakness
from ottla.node.settings.authorization_settings import ignored_acls_sentence
from ottla.node.settings.exposed_listeners import anonymous_sentence, exposed, plaintext_sentence
from ottla.node.settings.listener_settings import Listener

WILDCARD_PRINCIPAL: Final = "User:*"
_USER: Final = "User:"


class TlsFacts(NamedTuple):
    """The certificate of a listener of a configuration."""

    listener: str
    error: str = ""  # the reason why its stores cannot be used
    problem: str = ""  # the reason why others reject it
    warning: str = ""  # the reason why they soon will
    weakness: str = ""
    rejection: str = ""  # the reason why this node would reject it, if another node had it
    unnamed: str = ""  # the advertised hosts that it does not name, in a sentence


class FileFacts(NamedTuple):
    """A file with a secret, and its mode."""

    path: str
    holds: str
    mode: int


class NodeListeners(NamedTuple):
    """The listeners of a node, by its settings."""

    node_id: int
    listeners: Sequence[Listener]
    has_authorizer: bool
    anonymous_ways: Sequence[str] = ()  # listeners at which a client without a login is a super user


class RefusedFacts(NamedTuple):
    """The certificates that a node has rejected, and the number of ACLs that it does not apply."""

    node_id: int
    certificates: Sequence[tuple[str, str]]  # listener and reason
    ignored_acls: int  # 0 with an authorizer


class AccessFacts(NamedTuple):
    """The permissions and users of a cluster with an authorizer."""

    super_users: Collection[str]  # as `User:NAME`
    allows_everyone: bool  # to resources without an ACL
    principals: Collection[str]  # in ACLs
    users: Collection[str]  # the names of SCRAM users


def of_tls(facts: Iterable[TlsFacts]) -> Iterator[Finding]:
    """Yield the problems of a configuration's certificates."""
    for one in facts:
        if one.error:
            yield problem("certificate", one.error)
        for sentence in (one.problem, one.warning, one.unnamed):
            if sentence:
                yield problem("certificate", sentence)
        if one.weakness:
            yield problem(
                "certificate",
                f"The certificate of the listener {one.listener} is weak: {one.weakness}. Issue another.",
            )
        if one.rejection:
            yield problem(
                "certificate",
                f"The truststore of the listener {one.listener} does not fit its own certificate "
                f"({one.rejection}), so other nodes with this truststore reject it: add the authority that "
                "signed the certificate in ssl.keystore.location to ssl.truststore.location.",
            )


def of_trust(problems: Iterable[str]) -> Iterator[Finding]:
    """Yield the problems of the truststores for OAuth providers."""
    for one in problems:
        yield problem("certificate", one)


def of_files(facts: Iterable[FileFacts]) -> Iterator[Finding]:
    """Yield a problem for each file with secrets that every user can access."""
    for one in facts:
        if one.mode & 0o007:
            yield problem(
                "file",
                f"Every user of this machine can {'change' if one.mode & 0o002 else 'read'} {one.path}, "
                f"which holds {one.holds}: chmod 600 {one.path}",
            )


def of_listeners(nodes: Iterable[NodeListeners], *, names_nodes: bool = True) -> Iterator[Finding]:
    """Yield the problems of listeners that other machines reach."""
    for one in nodes:
        where = f"Node {one.node_id}: " if names_nodes else ""
        sentence = plaintext_sentence(one.listeners)
        if sentence is not None:
            yield note("listener", f"{where}{sentence}")
        anonymous = anonymous_sentence(one.anonymous_ways)
        if anonymous is not None:
            yield problem("access", f"{where}{anonymous}")
        reached = exposed(one.listeners)
        if reached and not one.has_authorizer:
            yield note(
                "access",
                f"{where}Other machines reach {named([listener.name for listener in reached])}, and there "
                "is no authorizer, so every client may use all topics and groups: set "
                "authorizer.class.name.",
            )


def of_certificates(endpoints: Iterable[EndpointFacts], now: datetime) -> Iterator[Finding]:
    """Yield the problems of the certificates at the addresses of a cluster."""
    for at in endpoints:
        if not at.certificate:
            continue
        try:
            since, until = validity(at.certificate)
            names, weak = host_names(at.certificate), weakness(at.certificate)
        except ValueError as error:
            yield problem("certificate", f"The certificate of {at.name} cannot be read: {error}.")
            continue
        if until < now:
            yield problem(
                "certificate", f"The certificate of {at.name} expired on {until:%Y-%m-%d}: renew it."
            )
        elif since > now:
            yield problem(
                "certificate",
                f"The certificate of {at.name} is not valid before {since:%Y-%m-%d %H:%M} UTC: check the "
                "clocks.",
            )
        elif until - now < SOON:
            yield problem(
                "certificate", f"The certificate of {at.name} expires on {until:%Y-%m-%d}: renew it."
            )
        # If the doctor itself connected over TLS, it has checked the name already, or is set not to.
        if at.speaks is Speaks.TLS and not is_named(names, -1, [at.host]):
            hosts = named(sorted(names)) or "no host"
            yield problem(
                "certificate",
                f"The certificate of {at.name} was issued for {hosts}, so clients that check names reject "
                f"it: issue one for {at.host}, or correct advertised.listeners.",
            )
        if weak:
            yield problem("certificate", f"The certificate of {at.name} is weak: {weak}. Issue another.")


def of_refused(nodes: Iterable[RefusedFacts]) -> Iterator[Finding]:
    """Yield the new certificates that nodes have rejected, and the nodes that have ACLs but no authorizer."""
    for one in nodes:
        for listener, reason in one.certificates:
            yield problem(
                "certificate",
                f"The listener {listener} of node {one.node_id} keeps its old certificate, because the new "
                f"one was rejected: {reason}",
            )
        if one.ignored_acls:
            yield problem("access", f"Node {one.node_id}: {ignored_acls_sentence(one.ignored_acls)}")


def of_access(facts: AccessFacts | None) -> Iterator[Finding]:
    """Yield the users without permissions, and the ACLs that may belong to no user."""
    if facts is None:
        return
    users = {f"{_USER}{one}" for one in facts.users}
    if WILDCARD_PRINCIPAL not in facts.principals and not facts.allows_everyone:
        idle = sorted(users - set(facts.principals) - set(facts.super_users))
        if idle:
            it, them = ("it", "the user") if len(idle) == 1 else ("they", "the users")
            yield note(
                "access",
                f"ACLs and super.users do not name {named(idle)}, so {it} may do nothing: add ACLs, or "
                f"remove {them}.",
            )
    unknown = sorted(
        one
        for one in set(facts.principals) - users - set(facts.super_users) - {WILDCARD_PRINCIPAL, ANONYMOUS}
        if "=" not in one  # the distinguished name of a certificate
    )
    if unknown:
        yield note(
            "access",
            f"ACLs name {named(unknown)}, and there is no such SCRAM user: remove these ACLs, unless their "
            "principals log in by certificates or tokens, or as users of one listener (sasl.jaas.config).",
        )
