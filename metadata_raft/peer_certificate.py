"""The node for which a certificate was issued. Pure: TLS has verified the certificate before it comes here.

A certificate that a node shows to another must name that node: by its id, as `node-3`, or by a host at which
the cluster knows it. So a client with a certificate of the same authority is no node, even one that knows the
cluster's secret, and a node cannot pose as another. Hosts are subject alternative names: the common name of a
client may be whatever its owner likes, so there only `node-3` names a node.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_NAMES_SAID: Final = 10
_NODE: Final = re.compile(r"node-\d+", re.IGNORECASE)


def names_in(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names in a verified certificate as `ssl` tells it; none where nothing was shown."""
    if not certificate:
        return frozenset()
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")}
    for part in certificate.get("subject", ()):
        names |= {named_by_common_name(value) for key, value in part if key == "commonName"}
    return frozenset(names)


def named_by_common_name(value: str) -> str:
    """Return a common name as one that names a node, or so that it names no host."""
    return value if _NODE.fullmatch(value) else f"CN={value}"


def check_certificate_names(names: Collection[str], node_id: int, hosts: Collection[str]) -> None:
    """CLUSTER_AUTHORIZATION_FAILED unless a certificate with these names is that of a node.

    It is if it names `node-ID`, or one of the node's `hosts`.
    """
    if not names:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Node {node_id} showed no certificate: give its listener a keystore whose certificate is signed "
            f"by an authority in the truststores of the other nodes and names node-{node_id}.",
        )
    if is_named(names, node_id, hosts):
        return
    said = ", ".join(sorted(names)[:MAX_NAMES_SAID])
    wanted = " nor ".join(names_of(node_id, hosts))
    raise KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"The certificate of node {node_id} was issued for {said}. It names neither {wanted}."
        if hosts
        else f"The certificate of node {node_id} was issued for {said}. It does not name {wanted}.",
    )


def names_of(node_id: int, hosts: Collection[str]) -> list[str]:
    """Return names that the certificate of a node may have: not all of them, if it has very many hosts."""
    return [f"node-{node_id}", *sorted(filter(None, hosts))[:MAX_NAMES_SAID]]


def is_named(names: Collection[str], node_id: int, hosts: Collection[str]) -> bool:
    """Return whether one of the names of a certificate is that of a node, or of one of its hosts."""
    wanted = {f"node-{node_id}"} | {_plain(host) for host in hosts if host}
    for name in map(_plain, names):
        if name in wanted:
            return True
        if name.startswith("*.") and any(_is_below(host, name[2:]) for host in wanted):
            return True
    return False


def _is_below(host: str, domain: str) -> bool:
    """Return whether a host lies directly in a domain, for which alone a wildcard stands (RFC 6125)."""
    label, _, rest = host.partition(".")
    return bool(label) and "." in domain and rest == domain


def _plain(name: str) -> str:
    """Return a name as it is compared: an address in one notation, anything else in small letters."""
    try:
        return str(ip_address(name.strip("[]\n")))
    except ValueError:
        return name.lower().rstrip(".")
