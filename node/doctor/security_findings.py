"""Certificates, files with secrets, who may come in, and who may do what. Pure: the time is an argument."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from ottla.metadata_raft.peer_certificate import is_named
from ottla.node.authorization.access import ANONYMOUS
from ottla.node.doctor.endpoint_facts import EndpointFacts, Speaks
from ottla.node.doctor.finding import Finding, named, note, problem
from ottla.node.security.certificate_problems import SOON
from ottla.node.security.distinguished_name import host_names, validity, weakness
from ottla.node.settings.authorization_settings import unjudged_acls_sentence
from ottla.node.settings.exposed_listeners import anonymous_sentence, exposed, plaintext_sentence
from ottla.node.settings.listener_settings import Listener

EVERYBODY: Final = "User:*"
_USER: Final = "User:"


class TlsFacts(NamedTuple):
    """The certificate of a listener, as the node of a configuration would show it."""

    listener: str
    error: str = ""  # why its stores cannot be used
    problem: str = ""  # why others refuse it
    warning: str = ""  # that they will soon
    weakness: str = ""
    distrust: str = ""  # why this node itself would refuse it, if another showed it
    unnamed: str = ""  # that it does not name hosts by which clients are told to come


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
    anonymous_ways: Sequence[str] = ()  # by which super users come in without a login


class RefusedFacts(NamedTuple):
    """Certificates that a node has refused, and whether it has ACLs without an authorizer."""

    node_id: int
    certificates: Sequence[tuple[str, str]]  # listener and reason
    unjudged_acls: int


class AccessFacts(NamedTuple):
    """The rights and users of a cluster with an authorizer."""

    super_users: Collection[str]  # as `User:NAME`
    allows_everyone: bool  # where there is no ACL
    principals: Collection[str]  # that ACLs name
    users: Collection[str]  # of SCRAM, by name


def of_tls(facts: Iterable[TlsFacts]) -> Iterator[Finding]:
    """Judge the certificates of a node on its own machine."""
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
        if one.distrust:
            yield problem(
                "certificate",
                f"The truststore of the listener {one.listener} does not fit its own certificate "
                f"({one.distrust}), so other nodes with this truststore refuse it: add the authority that "
                "has signed the certificate in ssl.keystore.location to ssl.truststore.location.",
            )


def of_trust(problems: Iterable[str]) -> Iterator[Finding]:
    """Tell why the hosts of OAuth providers cannot be trusted."""
    for one in problems:
        yield problem("certificate", one)


def of_files(facts: Iterable[FileFacts]) -> Iterator[Finding]:
    """Judge the modes of files with secrets."""
    for one in facts:
        if one.mode & 0o007:
            yield problem(
                "file",
                f"Every user of this machine can {'change' if one.mode & 0o002 else 'read'} {one.path}, "
                f"which holds {one.holds}: chmod 600 {one.path}",
            )


def of_listeners(nodes: Iterable[NodeListeners], *, names_nodes: bool = True) -> Iterator[Finding]:
    """Judge what other machines reach."""
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
                "is no authorizer, so whoever comes in may use all topics and groups: set "
                "authorizer.class.name.",
            )


def of_certificates(endpoints: Iterable[EndpointFacts], now: datetime) -> Iterator[Finding]:
    """Judge the certificates that the addresses of a cluster show."""
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
        # Where the doctor came in by TLS, it has checked the name, or was told not to.
        if at.speaks is Speaks.TLS and not is_named(names, -1, [at.host]):
            said = named(sorted(names)) or "no host"
            yield problem(
                "certificate",
                f"The certificate of {at.name} was issued for {said}, so clients that check names refuse it: "
                f"issue one for {at.host}, or correct advertised.listeners.",
            )
        if weak:
            yield problem("certificate", f"The certificate of {at.name} is weak: {weak}. Issue another.")


def of_refused(nodes: Iterable[RefusedFacts]) -> Iterator[Finding]:
    """Judge what nodes keep although their files say otherwise, and ACLs by which they judge nobody."""
    for one in nodes:
        for listener, reason in one.certificates:
            yield problem(
                "certificate",
                f"The listener {listener} of node {one.node_id} keeps its old certificate, because the new "
                f"one is refused: {reason}",
            )
        if one.unjudged_acls:
            yield problem("access", f"Node {one.node_id}: {unjudged_acls_sentence(one.unjudged_acls)}")


def of_access(facts: AccessFacts | None) -> Iterator[Finding]:
    """Find users who may do nothing, and ACLs that may be nobody's."""
    if facts is None:
        return
    users = {f"{_USER}{one}" for one in facts.users}
    if EVERYBODY not in facts.principals and not facts.allows_everyone:
        idle = sorted(users - set(facts.principals) - set(facts.super_users))
        if idle:
            it, them = ("it", "the user") if len(idle) == 1 else ("they", "the users")
            yield note(
                "access",
                f"ACLs and super.users do not name {named(idle)}, so {it} may do nothing: add ACLs, or "
                f"remove {them}.",
            )
    strange = sorted(
        one
        for one in set(facts.principals) - users - set(facts.super_users) - {EVERYBODY, ANONYMOUS}
        if "=" not in one  # a name of a certificate
    )
    if strange:
        yield note(
            "access",
            f"ACLs name {named(strange)}, and there is no such SCRAM user: remove these ACLs, unless their "
            "principals log in by certificates or tokens, or as users of one listener (sasl.jaas.config).",
        )
