"""Checks that a certificate was issued for a node. Pure: TLS has verified the certificate before.

The certificate of a node must name that node: by its id, as `node-3`, or by a host at which the cluster knows
it. So a client with a certificate of the same authority cannot act as a node, even if it knows the cluster's
secret, and a node cannot act as another one. Hosts must be subject alternative names: the common name of a
client is freely chosen by its owner, so a common name counts only as `node-3`.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_LISTED_NAMES: Final = 10
_NODE: Final = re.compile(r"node-\d+", re.IGNORECASE)


def names_in(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names in a verified certificate, as `ssl` returns it; none without a certificate."""
    if not certificate:
        return frozenset()
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")}
    for part in certificate.get("subject", ()):
        names |= {named_by_common_name(value) for key, value in part if key == "commonName"}
    return frozenset(names)


def named_by_common_name(value: str) -> str:
    """Return a common name that names a node unchanged, any other one marked so that it matches no host."""
    return value if _NODE.fullmatch(value) else f"CN={value}"


def check_certificate_names(names: Collection[str], node_id: int, hosts: Collection[str]) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED unless a certificate with these names is the node's.

    It is the node's if it names `node-ID`, or one of the node's `hosts`.
    """
    if not names:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {node_id} presented no certificate: give its listener a keystore whose certificate is "
            f"signed by an authority in the truststores of the other nodes and names node-{node_id}.",
        )
    if is_named(names, node_id, hosts):
        return
    said = ", ".join(sorted(names)[:MAX_LISTED_NAMES])
    wanted = " nor ".join(names_of(node_id, hosts))
    raise KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"The certificate of node {node_id} was issued for {said}. It names neither {wanted}."
        if hosts
        else f"The certificate of node {node_id} was issued for {said}. It does not name {wanted}.",
    )


def names_of(node_id: int, hosts: Collection[str]) -> list[str]:
    """Return names that the certificate of a node may have; of very many hosts, only some."""
    return [f"node-{node_id}", *sorted(filter(None, hosts))[:MAX_LISTED_NAMES]]


def is_named(names: Collection[str], node_id: int, hosts: Collection[str]) -> bool:
    """Return True if one of the names of a certificate is the node's, or one of its hosts'."""
    wanted = {f"node-{node_id}"} | {_plain(host) for host in hosts if host}
    for name in map(_plain, names):
        if name in wanted:
            return True
        if name.startswith("*.") and any(_is_below(host, name[2:]) for host in wanted):
            return True
    return False


def _is_below(host: str, domain: str) -> bool:
    """Return True if a host is directly below a domain; a wildcard matches only such hosts (RFC 6125)."""
    label, _, rest = host.partition(".")
    return bool(label) and "." in domain and rest == domain


def _plain(name: str) -> str:
    """Return a name for comparison: an address in its normal form, anything else in lower case."""
    try:
        return str(ip_address(name.strip("[]\n")))
    except ValueError:
        return name.lower().rstrip(".")
