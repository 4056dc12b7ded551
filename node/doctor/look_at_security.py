"""Reads the certificates of a configuration, as the node would, and the modes of files with secrets."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.doctor.security_findings import FileFacts, TlsFacts
from ottla.node.net.own_hosts import own_hosts
from ottla.node.security.certificate_problems import OwnNode, names_problem, problem_of, warning_of
from ottla.node.security.server_context import build_tls, own_refusal
from ottla.node.security.trust_file import read_trust
from ottla.node.settings.config import BrokerConfig
from ottla.node.settings.listener_settings import ANYWHERE, is_loopback
from ottla.node.settings.rest_security_settings import REST
from ottla.node.settings.rest_settings import ADVERTISED_REST_LISTENER, REST_LISTENERS
from ottla.node.settings.security_settings import ListenerSecurity

ADVERTISED: Final = "advertised.listeners"


def look_at_tls(config: BrokerConfig, now: datetime, not_yet: str = "") -> list[TlsFacts]:
    """Return the facts about each listener with TLS. Blocks.

    Listeners with the keystore `not_yet`, which the node has still to make, are left out.
    """
    node = OwnNode(config.node_id, own_hosts(config))
    advertised = {one.name: [one.host] for one in config.advertised_listeners}
    found = [
        _of_listener(
            one, node, now, f"the listener {one.listener}", advertised.get(one.listener, []), ADVERTISED
        )
        for one in config.listener_security.values()
        if not not_yet or one.keystore.location != not_yet
    ]
    rest = config.rest_security
    if rest is not None and (not not_yet or rest.keystore.location != not_yet):
        found.append(_of_listener(rest, node, now, f"the {REST}", *_hosts_of_rest(config)))
    return found


def _hosts_of_rest(config: BrokerConfig) -> tuple[list[str], str]:
    """Return the hosts by which clients reach the REST API over TLS, and the setting that names them."""
    advertised = config.ottla_rest_advertised_listener
    if advertised is not None:
        return ([advertised.host] if advertised.is_secure else []), ADVERTISED_REST_LISTENER
    bound = (one.host for one in config.ottla_rest_listeners if one.is_secure)
    return [one for one in bound if one not in ANYWHERE and not is_loopback(one)], REST_LISTENERS


def look_at_trust(config: BrokerConfig) -> list[str]:
    """Return a sentence for each unusable truststore of an OAuth provider. Blocks."""
    tokens = [one.tokens for sasl in config.listener_sasl.values() for one in sasl.mechanisms.values()]
    found: list[str] = []
    for place in dict.fromkeys(
        one.truststore_location for one in (*tokens, config.rest_logins.tokens) if one is not None
    ):
        if place is None:
            continue
        try:
            read_trust(place)
        except KafkaError as error:
            found.append(error.detail)
    return found


def _of_listener(
    security: ListenerSecurity,
    node: OwnNode,
    now: datetime,
    which: str,
    hosts: Sequence[str],
    setting: str,
) -> TlsFacts:
    """Return the facts about the certificate of one listener, which clients reach by these `hosts`."""
    facts = TlsFacts(security.listener)
    try:
        built = build_tls(security)
    except KafkaError as error:
        return facts._replace(error=error.detail)
    problem = problem_of(built.certificate, security, node, now)
    return facts._replace(
        problem=problem or "",
        warning=warning_of(built.certificate, security, now) or "",
        weakness=built.certificate.weakness,
        rejection="" if problem or not security.is_between_nodes else own_refusal(built),
        unnamed=""
        if security.is_between_nodes
        else names_problem(built.certificate, which, hosts, setting) or "",
    )


def look_at_files(config: BrokerConfig, written: Sequence[Path]) -> list[FileFacts]:
    """Return the modes of the keystores, and of `written`, the files of the settings. Blocks."""
    held: dict[str, str] = {}
    of_rest = [] if config.rest_security is None else [config.rest_security]
    for security in (*config.listener_security.values(), *of_rest):
        if security.keystore.location:
            held[security.keystore.location] = "the private key of this node"
    has_secrets = config.cluster_secret is not None or any(
        "password" in name or name.endswith(("jaas.config", ".key", ".secret")) or name == "ottla.add.scram"
        for name in config.static_texts
    )
    if has_secrets:
        held |= {str(path): "secrets" for path in written}
    found: list[FileFacts] = []
    for path, holds in held.items():
        try:
            found.append(FileFacts(path, holds, Path(path).stat().st_mode & 0o777))
        except OSError:
            continue  # an unreadable file is reported by its reader
    return found
