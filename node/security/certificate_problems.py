"""Finds reasons why clients or nodes reject a listener's certificate, now or soon. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ottla.metadata_raft.peer_certificate import MAX_LISTED_NAMES, is_named, names_of
from ottla.node.security.server_context import OwnCertificate
from ottla.node.settings.security_settings import ListenerSecurity

SOON: Final = timedelta(days=30)
_NO_NODE: Final = -1


class OwnNode(NamedTuple):
    """The node that presents the certificates, and the hosts at which other nodes connect to it."""

    node_id: int
    hosts: Collection[str]


def problem_of(
    certificate: OwnCertificate, security: ListenerSecurity, node: OwnNode | None, now: datetime
) -> str | None:
    """Return the reason why clients or nodes reject this certificate, as a sentence, or None."""
    which = f"The certificate of the listener {security.listener}"
    if certificate.valid_until < now:
        return (
            f"{which} expired on {_day(certificate.valid_until)}, so clients and other nodes refuse it: "
            f"renew {_store(security)}."
        )
    if certificate.valid_since > now:
        return (
            f"{which} is not valid before {certificate.valid_since:%Y-%m-%d %H:%M:%S} UTC, so others refuse "
            "it: check the clock of this machine."
        )
    if node is None or not (security.is_between_nodes and security.checks_names):
        return None
    hosts = () if security.needs_node_id else node.hosts
    if is_named(certificate.host_names, node.node_id, hosts):
        return None
    shown = ", ".join(sorted(certificate.host_names)[:MAX_LISTED_NAMES]) or "no host"
    wanted = " or ".join(names_of(node.node_id, hosts))
    return f"{which} was issued for {shown}, so other nodes refuse it: it must name {wanted}."


def warning_of(certificate: OwnCertificate, security: ListenerSecurity, now: datetime) -> str | None:
    """Return a sentence if this certificate expires within `SOON`; None if it does not or already has."""
    left = certificate.valid_until - now
    if not timedelta(0) <= left < SOON:
        return None
    days = f"in {left.days} days" if left.days > 1 else "within two days"
    return (
        f"The certificate of the listener {security.listener} expires {days}, on "
        f"{_day(certificate.valid_until)}: renew {_store(security)}."
    )


def names_problem(
    certificate: OwnCertificate, which: str, hosts: Collection[str], setting: str
) -> str | None:
    """Return a sentence about the advertised hosts that a certificate does not name, or None if it names all.

    `which` is its owner, such as "the listener SSL", and `setting` the setting that advertises the hosts.
    """
    unnamed = [one for one in hosts if not is_named(certificate.host_names, _NO_NODE, [one])]
    if not unnamed:
        return None
    shown = ", ".join(sorted(certificate.host_names)[:MAX_LISTED_NAMES]) or "no host"
    return (
        f"The certificate of {which} was issued for {shown}, so clients that check names reject it: issue "
        f"one for {' and '.join(unnamed)}, or correct {setting}."
    )


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _store(security: ListenerSecurity) -> str:
    return security.keystore.location or "ssl.keystore.certificate.chain"
