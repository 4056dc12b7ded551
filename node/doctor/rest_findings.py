"""Judges which clients the REST APIs of nodes admit. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.node.authorization.access import ANONYMOUS
from ottla.node.doctor.finding import Finding, named, note
from ottla.node.settings.exposed_listeners import rest_sentence
from ottla.node.settings.listener_settings import is_loopback
from ottla.node.settings.rest_security_settings import AUTHENTICATION
from ottla.node.settings.rest_settings import RestAddress


class RestFacts(NamedTuple):
    """The addresses of the REST API of a node, and its methods of authentication."""

    node_id: int
    addresses: Sequence[RestAddress]
    methods: Collection[str]  # in ottla.rest.authentication; empty if clients need not log in
    has_authorizer: bool


def of_rest(nodes: Iterable[RestFacts], *, names_nodes: bool = True) -> Iterator[Finding]:
    """Yield the problems of REST APIs that other machines reach."""
    for one in nodes:
        where = f"Node {one.node_id}: " if names_nodes else ""
        plaintext = rest_sentence(one.addresses)
        if plaintext is not None:
            yield note("listener", f"{where}{plaintext}")
        reached = [address.url for address in one.addresses if not is_loopback(address.host)]
        if reached and not one.methods:
            may = (
                f"may do what ACLs allow {ANONYMOUS}"
                if one.has_authorizer
                else "may read and write all topics, and read the state of the cluster"
            )
            yield note(
                "access",
                f"{where}Other machines reach the REST API ({named(reached)}), which requires no login, so "
                f"every client {may}: set {AUTHENTICATION}, or bind it to 127.0.0.1 "
                "(ottla.rest.listeners).",
            )
